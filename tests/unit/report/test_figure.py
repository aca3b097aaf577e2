"""Figures are saved as the same bytes every time."""

from __future__ import annotations

from pathlib import Path

from expunge.report import new_figure, save_figure


def test_the_same_figure_gives_the_same_bytes_without_dates(tmp_path: Path) -> None:
    texts = []
    for name in ("first", "second"):
        figure = new_figure(2.0, 1.0)
        figure.subplots().set_title("f")
        save_figure(figure, tmp_path / f"{name}.png", ("pdf", "svg", "png"))
        texts.append([(tmp_path / f"{name}.{kind}").read_bytes() for kind in ("pdf", "svg", "png")])
    assert texts[0] == texts[1]
    pdf, svg, _ = texts[0]
    assert b"/FontFile2" in pdf
    assert b"/Type3" not in pdf
    assert b"CreationDate" not in pdf
    assert b"<dc:date>" not in svg
