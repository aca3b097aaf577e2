"""Where a key stands in a TOML text."""

from __future__ import annotations

import pytest

from expunge._toml_lines import line_of


@pytest.mark.parametrize(
    ("path", "line"),
    [(["a"], 1), (["t", "b"], 3), (["x", 0, "c"], 5), (["x", 1], 6), (["x", 1, "u", "d"], 9)],
)
def test_lines_are_found(path: list[str | int], line: int) -> None:
    text = "a = 1\n[t]\nb = 2\n[[x]]\nc = 3\n[[x]]\nc = 4\n[x.u]\nd = 5\n"
    assert line_of(text, path) == line
