"""One browser for all tests of the page, and the pages that several of them open."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from expunge.report import render_bench, render_request, write_page
from tests.unit.report import fake, fake_bench

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
        write_page(folder / f"{name}.html", render_request(evidence))
    page = render_bench(fake_bench.results(), "A small benchmark", fake_bench.claims())
    write_page(folder / "bench.html", page)
    many = render_bench(fake_bench.many_results(), "Many methods", fake_bench.claims())
    write_page(folder / "many.html", many)
    return folder
