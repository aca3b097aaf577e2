"""The audit of an unlearned model: metrics, and attacks on membership."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.audit._audit import Audit as Audit
    from expunge.audit._audit import AuditInput as AuditInput
    from expunge.audit._audit import run_audit as run_audit
    from expunge.evaluation import ULiRA as ULiRA
    from expunge.evaluation import ulira as ulira
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.audit._report import as_json, terminal, write_audit
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
