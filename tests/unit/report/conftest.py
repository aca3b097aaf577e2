"""One browser for all tests of the page, and the pages that several of them open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from expunge._files import write_text
from expunge.bench._page import render_page
from expunge.report import render_request
from tests.unit.bench import fake_results
from tests.unit.report import fake

if TYPE_CHECKING:
    from tests.unit.report.browser import Browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    from tests.unit.report.browser import chromium, reason

    if why := reason():
        pytest.skip(why)
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with request.html, hostile.html, bare.html, bench.html and many.html."""
    folder = tmp_path_factory.mktemp("pages")
    made = {
        "request": fake.evidence(120),
        "hostile": fake.hostile(),
        "bare": fake.bare(),
    }
    for name, evidence in made.items():
        write_text(folder / f"{name}.html", render_request(evidence))
    benchmarks = {"bench": fake_results.results(), "many": fake_results.many_results()}
    for name, results in benchmarks.items():
        page = render_page(results, "A small benchmark", fake_results.claims())
        write_text(folder / f"{name}.html", page)
    return folder
