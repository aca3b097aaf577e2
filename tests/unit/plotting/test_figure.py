"""Figures are saved as the same bytes every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from expunge.plotting import COLOURS, draw_band, new_figure, save_figure


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


def test_a_band_goes_from_mean_minus_spread_to_mean_plus_spread() -> None:
    ax = new_figure(2.0, 1.0).subplots()
    mean, spread = np.array([1.0, 2.0]), np.array([0.5, 0.25])
    draw_band(ax, np.array([0.0, 1.0]), mean, spread, COLOURS[0])
    (path,) = ax.collections[0].get_paths()
    corners = {(float(x), float(y)) for x, y in path.vertices}
    assert corners == {(0.0, 0.5), (0.0, 1.5), (1.0, 1.75), (1.0, 2.25)}
