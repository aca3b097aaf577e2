"""The audit of an unlearned model: every rung of the ladder that the budget allows."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.audit._audit import Audit as Audit
    from expunge.audit._audit import Subject as Subject
    from expunge.audit._audit import audit as audit
    from expunge.audit._budget import Rung as Rung
    from expunge.audit._budget import choose_rung as choose_rung
    from expunge.audit._ulira import ULiRA as ULiRA
    from expunge.audit._ulira import ulira as ulira
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
