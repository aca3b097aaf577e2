from __future__ import annotations

from dataclasses import replace

import pytest
from rich.cells import cell_len

from expunge.data import Examples
from tests.unit.request.preflight.findings import check, printed

EVIL = ("[bold red]ant[/]", "\x1b[2Jbee", "cat\u202egod", "x" * 200)


@pytest.mark.parametrize("width", [80, 60])
def test_the_summary_fits_a_narrow_terminal(loaded, tmp_path, width):
    text = printed(check(loaded, tmp_path), width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    for words in (
        "train",
        "val",
        "test",
        "to forget",
        "By confidence, the records",
        "Duplicates that remain",
        "Unlearn:",
    ):
        assert words in text
    assert "…" not in text


def test_names_with_markup_and_control_characters_are_shown_not_obeyed(loaded, tmp_path):
    parts = {
        name: Examples(part.inputs, part.labels, EVIL)
        for name, part in (("train", loaded.train), ("val", loaded.val), ("test", loaded.test))
    }
    evil = replace(loaded, classes=EVIL, **parts)
    text = printed(check(evil, tmp_path, ids=range(0, 240, 4)))
    assert "[bold red]ant[/]" in text
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(cell_len(line) for line in text.splitlines()) <= 80


def test_one_id_is_one_id(loaded, tmp_path):
    assert "requested by 1 id " in printed(check(loaded, tmp_path, ids=[0]))
