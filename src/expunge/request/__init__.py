"""A deletion request: from a list of ids to an unlearned model and its evidence."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.evidence._schema import Evidence as Evidence
    from expunge.ledger._ledger import Ledger as Ledger
    from expunge.ledger._signing_keys import SigningKey as SigningKey
    from expunge.request._job import Job as Job
    from expunge.request._job_file import load_job as load_job
    from expunge.request._run import carry_out as carry_out
    from expunge.request._run import forget as forget
    from expunge.request._runner import Outcome as Outcome
    from expunge.request._verify import verify as verify
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
