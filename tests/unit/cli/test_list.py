"""Lists of the registered parts."""

from __future__ import annotations

import pytest

from expunge.cli._list import KINDS
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
    lines = [line.strip() for line in ending.out.splitlines()]
    assert [line for line in lines if line in KINDS] == list(KINDS)


def test_an_unknown_kind_is_wrong_usage(expunge: Expunge) -> None:
    ending = expunge("list", "addon")
    assert ending.code == 2
    assert ending.err == "Wrong usage: Unknown kind of part 'addon'. Did you mean 'addons'?\n"
