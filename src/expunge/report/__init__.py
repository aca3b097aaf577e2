"""Self-contained HTML pages of deletion requests and of benchmark results, and their figures."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.report._figure import COLOURS as COLOURS
    from expunge.report._figure import hide_frame as hide_frame
    from expunge.report._figure import legend_beside as legend_beside
    from expunge.report._figure import new_figure as new_figure
    from expunge.report._figure import save_figure as save_figure
    from expunge.report._letter import render_letter as render_letter
    from expunge.report._request import render_request as render_request
if TYPE_CHECKING:  # for other packages of expunge
    from expunge.report._page import render
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
