"""Self-contained HTML pages of deletion requests and of benchmark results."""

from typing import TYPE_CHECKING

from expunge._lazy import lazy_exports

if TYPE_CHECKING:
    from expunge.report._bench import render_bench as render_bench
    from expunge.report._letter import render_letter as render_letter
    from expunge.report._page import write_page as write_page
    from expunge.report._request import render_request as render_request
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
