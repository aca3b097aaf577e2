"""The audit of an unlearned model: every attack that the budget allows."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.audit._audit import Audit as Audit
    from expunge.audit._audit import AuditInput as AuditInput
    from expunge.audit._audit import run_audit as run_audit
    from expunge.audit._budget import AttackChoice as AttackChoice
    from expunge.audit._budget import choose_attack as choose_attack
    from expunge.evaluation.attacks._lira import ULiRA as ULiRA
    from expunge.evaluation.attacks._lira import ulira as ulira
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
