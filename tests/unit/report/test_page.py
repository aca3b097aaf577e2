"""The HTML of pages, without a browser."""

from __future__ import annotations

import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from expunge.evidence import Evidence
from expunge.report import _page, render_request
from expunge.report._page import embed
from tests.unit.report import fake
from tests.unit.report.html import Reader, embedded


@pytest.fixture(scope="module")
def hostile_page() -> str:
    return render_request(fake.hostile())


def test_the_evidence_is_in_the_page_as_it_was(hostile_page: str) -> None:
    assert embedded(render_request(fake.evidence())) == fake.evidence().as_json()
    assert embedded(hostile_page) == fake.hostile().as_json()


@given(st.text(), st.floats(allow_nan=False, allow_infinity=False))
def test_embedded_values_come_back_and_hold_no_markup(text: str, value: float) -> None:
    made = embed({text: [value, text]})
    assert json.loads(made) == {text: [value, text]}
    assert not set(made) & set("<>&\u2028\u2029")


def test_numbers_that_json_lacks_are_null() -> None:
    assert json.loads(embed([float("nan"), float("inf"), Path("a")])) == [None, None, "a"]


def test_a_page_has_its_own_three_scripts_and_no_more(hostile_page: str) -> None:
    plain, hostile = Reader(render_request(fake.evidence())), Reader(hostile_page)
    for page in (plain, hostile):
        assert [tag for tag, _ in page.tags].count("script") == 3
        assert not any(name.startswith("on") for _, attrs in page.tags for name in attrs)
        assert not any(tag in ("img", "iframe", "link", "object", "base") for tag, _ in page.tags)
    assert plain.scripts[1:] == hostile.scripts[1:]


def test_hostile_names_are_shown_as_they_are(hostile_page: str) -> None:
    text = Reader(hostile_page).text
    for name in fake.HOSTILE:
        assert name in text


def test_nothing_is_loaded_from_anywhere(hostile_page: str) -> None:
    for tag, attributes in Reader(hostile_page).tags:
        for name in ("src", "href", "action", "data", "poster", "srcset"):
            assert (attributes.get(name) or "#").startswith("#"), (tag, attributes)
    style = re.search(r"<style>(.*?)</style>", hostile_page, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_the_policy_names_the_scripts_by_their_hash(hostile_page: str) -> None:
    page = Reader(hostile_page)
    policy = next(
        attributes["content"] or ""
        for tag, attributes in page.tags
        if attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    script = policy.split("script-src")[1].split(";")[0]
    assert "unsafe" not in script
    assert script.count("sha256-") == 2
    assert "img-src data:" in policy


def test_the_shipped_library_is_the_one_that_was_published() -> None:
    folder = files("expunge.report") / "vendor"
    assert (
        hashlib.sha256((folder / _page.CHART_LIBRARY_FILE).read_bytes()).hexdigest()
        == _page.CHART_LIBRARY_SHA256
    )
    readme = (folder / "README.md").read_text()
    assert _page.CHART_LIBRARY_SHA256 in readme
    assert _page.CHART_LIBRARY_VERSION in readme
    assert f'version="{_page.CHART_LIBRARY_VERSION}"' in _page._read(
        "vendor", _page.CHART_LIBRARY_FILE
    )
    assert "Apache License" in (folder / "LICENSE").read_text()
    assert "Apache Software Foundation" in (folder / "NOTICE").read_text()


def test_a_page_is_not_large() -> None:
    assert len(render_request(fake.evidence())) < 1_000_000


def test_missing_parts_leave_no_empty_sections() -> None:
    html = render_request(fake.bare())
    ids = {attributes.get("id") for tag, attributes in Reader(html).tags if tag == "section"}
    assert {"verdict", "metrics", "epochs", "record"} <= ids
    assert not {"checks", "exposure", "classes", "earlier", "cost"} & ids
    assert "Forgetting not achieved" in html
    assert "No epoch was run." in html


def test_what_is_missing_altogether_is_refused() -> None:
    with pytest.raises(ValidationError, match="verdict"):
        Evidence.model_validate({})


def test_the_page_never_claims_a_certificate() -> None:
    assert "certified" not in Reader(render_request(fake.evidence())).text.lower()
