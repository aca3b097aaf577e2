"""Lists of the registered parts."""

from __future__ import annotations

import json

import pytest

from expunge.cli._list import KINDS, describe_part
from expunge.methods import METHODS
from tests.unit.cli.conftest import Expunge


@pytest.mark.parametrize("kind", list(KINDS))
def test_list_shows_every_part_of_a_kind_with_a_line_about_it(kind: str, expunge: Expunge) -> None:
    ending = expunge("list", kind)
    assert ending.code == 0
    lines = ending.out.splitlines()
    for name in KINDS[kind]:
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert len(line.split()) > 3, f"{name} is not described"
        assert KINDS[kind].label(name) in line


def test_list_shows_all_kinds(expunge: Expunge) -> None:
    ending = expunge("list")
    assert ending.code == 0
    lines = ending.out.splitlines()
    assert [kind for kind in KINDS if kind not in ending.out] == []
    assert len(lines) < 24, "a screenful, with the prompt"
    assert "random-label" in ending.out


def test_an_unknown_kind_is_wrong_usage(expunge: Expunge) -> None:
    ending = expunge("list", "addon")
    assert ending.code == 2
    assert ending.err == "Wrong usage: Unknown kind of part 'addon'. Did you mean 'addons'?\n"


@pytest.mark.parametrize("name", ["scrub", "SCRUB"])
def test_a_name_says_what_the_part_is_for_and_cites_it(name: str, expunge: Expunge) -> None:
    out = " ".join(expunge("list", name).out.split())
    assert out.startswith("scrub (SCRUB), of the methods")
    assert "Use it where retained outputs should stay" in out
    assert "Towards Unbounded Machine Unlearning" in out
    assert "Use it" not in expunge("list", "methods").out


def test_a_name_of_two_kinds_shows_both(expunge: Expunge) -> None:
    out = expunge("list", "kl").out
    assert "of the retain-losses" in out
    assert "of the metrics" in out


def test_every_method_says_what_it_is_for_and_where_it_comes_from() -> None:
    """Paragraphs of its docstring that begin with "Use it" and "Reference:"."""
    parts = [describe_part(METHODS, name) for name in METHODS]
    assert [part["name"] for part in parts if not part["use"]] == []
    assert [part["name"] for part in parts if not part["reference"]] == []


def test_the_options_of_data_are_listed(expunge: Expunge) -> None:
    assert "task=classification|regression" in expunge("list", "csv").out
    assert "missing=" not in expunge("list", "digits").out


def test_lists_as_json(expunge: Expunge) -> None:
    found = json.loads(expunge("list", "--json").out)
    assert list(found) == list(KINDS)
    (scrub,) = [part for part in found["methods"] if part["name"] == "scrub"]
    assert scrub["also"] == "SCRUB"
    assert scrub["reference"].startswith("M. Kurmanji")
