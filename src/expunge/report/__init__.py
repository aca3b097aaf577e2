"""One self-contained HTML page: of a deletion request, or of a benchmark's results."""

from expunge.report.bench import render_bench as render_bench
from expunge.report.page import write_page as write_page
from expunge.report.request import render_request as render_request
