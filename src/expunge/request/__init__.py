"""A deletion request: from a list of ids to an unlearned model and its evidence."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.evidence import Evidence as Evidence
    from expunge.ledger import Ledger as Ledger
    from expunge.ledger import SigningKey as SigningKey
    from expunge.request._job import Job as Job
    from expunge.request._job_file import load_job as load_job
    from expunge.request._run import carry_out as carry_out
    from expunge.request._run import forget as forget
    from expunge.request._runner import Outcome as Outcome
    from expunge.request._verify import verify as verify
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.request._bundle import write_letters
    from expunge.request._job import make_job
    from expunge.request._job_file import job_options, job_template
    from expunge.request._reload import verify_command
    from expunge.request._stopwatch import RequestStopwatch
    from expunge.request.loading._load import ModelAndData
    from expunge.request.loading._texts import evaluate_by_harness, evaluate_text_files
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
