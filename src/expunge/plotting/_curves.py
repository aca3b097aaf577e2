"""A grid of panels, each a metric over epochs with bands over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.evaluation import METRICS
from expunge.plotting._figure import (
    COLOURS,
    Array,
    draw_band,
    draw_grid,
    hide_frame,
    legend_beside,
    new_figure,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class Curve:
    """One line of a panel: values [seeds, epochs], and how to draw it."""

    label: str
    values: Array
    colour: int = 0
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """One pair of axes: a metric over epochs."""

    title: str
    metric: str
    curves: Sequence[Curve]
    level: tuple[str, float] | None = None
    """A named horizontal line, such as the ideal model's value."""


def curves_figure(panels: Sequence[Sequence[Panel]], note: str = "") -> Figure:
    """A grid of panels; each row has one legend, to its right."""
    rows, columns = len(panels), max(len(row) for row in panels)
    figure = new_figure(4.6 * columns + 1.6, 3.3 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for row_axes, row in zip(axes, panels, strict=True):
        for ax, panel in zip(row_axes, row, strict=True):
            _draw_panel(ax, panel)
        legend_beside(row_axes[-1], fontsize=9)
    if note:
        figure.supxlabel(note, fontsize=8, color="#444444")
    return figure


def _draw_panel(ax: Any, panel: Panel) -> None:
    # The level to aim at, behind the curves.
    if panel.level is not None:
        name, level = panel.level
        ax.axhline(level, color="#888888", linewidth=1, linestyle=":")
        ax.annotate(
            name, (0.99, level), xycoords=("axes fraction", "data"), ha="right", va="bottom",
            fontsize=8, color="#666666",
        )  # fmt: skip

    # Each curve: the mean over seeds, and a band of one standard deviation.
    for k, curve in enumerate(panel.curves):
        epochs = np.arange(curve.values.shape[1], dtype=np.float64)
        mean = curve.values.mean(axis=0)
        colour = COLOURS[curve.colour % len(COLOURS)]
        ax.plot(
            epochs, mean, label=curve.label, color=colour, linestyle="--" if curve.dashed else "-",
            marker=MARKERS[k % len(MARKERS)], markersize=3.5, linewidth=1.5,
        )  # fmt: skip
        if len(curve.values) > 1:
            draw_band(ax, epochs, mean, curve.values.std(axis=0, ddof=1), colour, alpha=0.08)

    metric = METRICS[panel.metric]
    ax.set_title(panel.title, fontsize=10)
    ax.set_xlabel("epoch")
    ax.set_ylabel(f"{metric.label} ({metric.unit})")
    draw_grid(ax)
    hide_frame(ax)
