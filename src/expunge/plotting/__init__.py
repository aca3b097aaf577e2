"""What the figures of audits, requests and benchmarks share; matplotlib is loaded on first use."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.plotting._figure import COLOURS as COLOURS
    from expunge.plotting._figure import QUIET as QUIET
    from expunge.plotting._figure import Array as Array
    from expunge.plotting._figure import draw_band as draw_band
    from expunge.plotting._figure import draw_grid as draw_grid
    from expunge.plotting._figure import hide_frame as hide_frame
    from expunge.plotting._figure import legend_beside as legend_beside
    from expunge.plotting._figure import new_figure as new_figure
    from expunge.plotting._figure import save_figure as save_figure
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
