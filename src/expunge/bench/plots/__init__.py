"""The paper's nine figures by name, and one of ours, from the records of a protocol.

Nothing here loads matplotlib before there is something to draw.
"""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.bench.plots._registry import FIGURES as FIGURES
    from expunge.bench.plots._write import WrittenFigures as WrittenFigures
    from expunge.bench.plots._write import write_figures as write_figures
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
