"""Figures one can print: metric over epochs, with bands over seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge._files import atomic
from expunge.evaluation import METRICS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True)
class Curve:
    """One line of a panel: values [seeds, epochs], and how to draw it."""

    label: str
    values: np.ndarray[Any, np.dtype[np.float64]]
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
    """A grid of panels; each row has one legend, beside it."""
    rows, columns = len(panels), max(len(row) for row in panels)
    figure = new_figure(4.6 * columns + 1.6, 3.3 * rows)
    axes = figure.subplots(rows, columns, squeeze=False)
    for line, row in zip(axes, panels, strict=True):
        for ax, panel in zip(line, row, strict=True):
            _draw(ax, panel)
        line[-1].legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9)
    if note:
        figure.supxlabel(note, fontsize=8, color="#444444")
    return figure


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches; matplotlib is loaded here, when there is something to draw."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure, path: Path, formats: Sequence[str] = ("png", "pdf")) -> None:
    """Write a figure in each format, beside each other: the same figure gives the same bytes.

    PDF embeds its fonts as type 42, which publishers ask for; no dates are written.
    """
    import matplotlib as mpl

    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}
    settings: Any = {"pdf.fonttype": 42, "svg.hashsalt": "expunge"}
    for kind in formats:
        with atomic(path.with_suffix(f".{kind}")) as scratch, mpl.rc_context(settings):
            figure.savefig(scratch, format=kind, dpi=160, metadata=undated.get(kind))


def _draw(ax: Any, panel: Panel) -> None:
    metric = METRICS[panel.metric]
    if panel.level is not None:
        ax.axhline(panel.level[1], color="#888888", linewidth=1, linestyle=":")
        ax.annotate(
            panel.level[0],
            (0.99, panel.level[1]),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8,
            color="#666666",
        )
    for k, curve in enumerate(panel.curves):
        epochs = np.arange(curve.values.shape[1])
        mean = curve.values.mean(axis=0)
        colour = COLOURS[curve.colour % len(COLOURS)]
        ax.plot(
            epochs,
            mean,
            label=curve.label,
            color=colour,
            linestyle="--" if curve.dashed else "-",
            marker=MARKERS[k % len(MARKERS)],
            markersize=3.5,
            linewidth=1.5,
        )
        if len(curve.values) > 1:
            spread = curve.values.std(axis=0, ddof=1)
            ax.fill_between(epochs, mean - spread, mean + spread, color=colour, alpha=0.08, lw=0)
    ax.set_title(panel.title, fontsize=10)
    ax.set_xlabel("epoch")
    ax.set_ylabel(f"{metric.label} ({metric.unit})")
    ax.grid(alpha=0.25, linewidth=0.5)
    ax.spines[["top", "right"]].set_visible(False)
