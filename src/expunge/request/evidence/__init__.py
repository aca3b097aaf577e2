"""What a request can show: the evidence, its verdict, and the bundle that holds them."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.request.evidence._schema import Evidence as Evidence
    from expunge.request.evidence._schema import read_evidence as read_evidence
    from expunge.request.evidence._sections import Interval as Interval
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
