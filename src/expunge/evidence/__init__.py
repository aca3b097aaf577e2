"""The evidence of a request: the types of what was measured, and of how it is written."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.evidence._schema import Evidence as Evidence
    from expunge.evidence._schema import read_evidence as read_evidence
    from expunge.evidence._sections import Interval as Interval
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
