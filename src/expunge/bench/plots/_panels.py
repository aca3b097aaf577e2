"""A page of panels: each metric over the epochs, with a legend in the last cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import TaskRuns
from expunge.bench.plots._series import Limits, Series, level_of, limits_of, series_of
from expunge.bench.plots._style import LineStyle, add_note
from expunge.evaluation import METRICS
from expunge.plotting import QUIET, draw_band, draw_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS_SHOWN = ("mia_entropy", "rua", "ta", "ra", "ua", "fid", "rte")
GOOD = {"ideal": "→ ideal", "higher": "↑", "lower": "↓", "zero": "→ 0", "none": ""}
RANGES = {"%": (0.0, 100.0), "0 to 1": (0.0, 1.0), "s": (0.0, np.inf)}
"""Values that a unit can take; a band is not drawn far beyond them."""


@dataclass(frozen=True)
class ArmCurve:
    """One arm of a figure: its records, one per seed, and how they are drawn."""

    label: str
    style: LineStyle
    records: Sequence[Record]


def panels_figure(curves: Sequence[ArmCurve], runs: TaskRuns) -> Figure:
    """Every metric of :data:`METRICS_SHOWN` that the records have, and a legend."""
    shown = [
        metric
        for metric in METRICS_SHOWN
        if any(series_of(curve.records, metric) is not None for curve in curves)
    ]
    columns = min(4, len(shown) + 1)
    rows = -(-(len(shown) + 1) // columns)
    figure = new_figure(1.9 * columns, 1.75 * rows + 0.3)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax, metric in zip(axes, shown, strict=False):
        draw_panel(ax, metric, curves, runs)
    for ax in axes[len(shown) :]:
        ax.axis("off")
    handles, labels = _legend(curves)
    axes[len(shown)].legend(
        handles, labels, loc="center left", bbox_to_anchor=(-0.12, 0.5), frameon=False,
        handlelength=3.2, labelspacing=0.45, borderaxespad=0.0,
    )  # fmt: skip
    add_note(figure, notes_of(curves, runs))
    return figure


def draw_panel(ax: Any, metric: str, curves: Sequence[ArmCurve], runs: TaskRuns) -> None:
    """One metric: means with bands, the ideal's level, and what leaves the axis."""
    about = METRICS[metric]
    measured = [
        (curve, series)
        for curve in curves
        if (series := series_of(curve.records, metric)) is not None
    ]
    level = level_of(runs.ideal, metric)
    limits = limits_of(
        {curve.label: series for curve, series in measured},
        None if metric == "rte" else level,
        RANGES.get(about.unit, (-np.inf, np.inf)),
    )

    # The ideal model's level; retraining takes too long to be on the axis of time.
    if level is not None and metric == "rte":
        text = f"retraining: {level:.3g} s"
        ax.text(0.04, 0.96, text, transform=ax.transAxes, va="top", fontsize=6.5, color=QUIET)
    elif level is not None:
        ax.axhline(level, color=QUIET, linewidth=1.0, linestyle=":", zorder=1)

    # The curves, from the initial model on.
    for curve, series in measured:
        _draw_series(ax, curve.style, series)
    start = measured[0][1]
    if start.epochs[0] == 0 and metric != "rte":
        ax.plot(0, start.mean[0], marker="*", markersize=8, color="black", zorder=6, clip_on=False)

    # Limits, ticks and titles.
    ax.set_ylim(_with_room_for_notes(limits) if metric != "rte" else (0.0, limits.high))
    _mark_outside(ax, limits, {curve.label: curve.style.colour for curve, _ in measured})
    _set_ticks(ax, np.unique(np.concatenate([series.epochs for _, series in measured])))
    unit = f" ({about.unit})" if about.unit in ("%", "points", "s") else ""
    ax.set_title(f"{about.label}{unit} {GOOD[about.direction]}".strip())
    ax.set_xlabel("epoch", labelpad=1)
    draw_grid(ax, 0.4)


def notes_of(curves: Sequence[ArmCurve], runs: TaskRuns) -> list[str]:
    """The dials, the number of seeds, and which runs diverged."""
    seeds = sorted({len(curve.records) for curve in curves})
    over = "1 seed" if seeds == [1] else f"{' to '.join(map(str, seeds))} seeds"
    spread = "" if seeds == [1] else "mean ± standard deviation over "
    words = {"lr": "lr", "alpha": "α", "beta": "β", "batch_size": "batch"}
    values = {word: getattr(runs.main_dials, name) for name, word in words.items()}
    dials = ", ".join(f"{word} {value:g}" for word, value in values.items() if value)
    moments = sorted({record["moments"] for curve in curves for record in curve.records} - {""})
    kind = f"; {' and '.join(moments)} moments" if moments else ""
    diverged = [
        f"{curve.label} diverged in {n} of {len(curve.records)} runs"
        for curve in curves
        if (n := sum(bool(record.diverged) for record in curve.records))
    ]
    return [f"{runs.task.title}; {dials}; {spread}{over}{kind}", "; ".join(diverged)]


def _draw_series(ax: Any, style: LineStyle, series: Series) -> None:
    ax.plot(series.epochs, series.mean, **style.arguments(), zorder=3 + style.filled)
    if len(series.values) > 1:
        draw_band(ax, series.epochs, series.mean, series.std, style.colour, zorder=2)


def _mark_outside(ax: Any, limits: Limits, colours: dict[str, str]) -> None:
    """Note at the edge how far the curves go that leave the axis."""
    for sign, arrow, y, grow in ((-1, "▼", 0.03, 1), (1, "▲", 0.97, -1)):
        beyond = {k: v for k, v in limits.outside.items() if (v < limits.low) == (sign < 0)}
        for row, (label, value) in enumerate(beyond.items()):
            ax.text(
                0.5, y + grow * 0.105 * row, f"{arrow} {label}: {_with_minus(value)}",
                transform=ax.transAxes, ha="center", va="bottom" if sign < 0 else "top",
                fontsize=6.3, color=colours[label], zorder=7,
                bbox={"facecolor": "white", "alpha": 0.8, "lw": 0, "pad": 0.6},
            )  # fmt: skip


def _with_room_for_notes(limits: Limits) -> tuple[float, float]:
    """The limits with a strip for each note of :func:`_mark_outside`."""
    strip = 0.11 * (limits.high - limits.low)
    below = sum(value < limits.low for value in limits.outside.values())
    above = len(limits.outside) - below
    return limits.low - below * strip, limits.high + above * strip


def _with_minus(value: float) -> str:
    """A number in three digits with a true minus sign."""
    return f"{value:.3g}".replace("-", "−")


def _set_ticks(ax: Any, epochs: Any) -> None:
    """Ticks at the evaluated epochs; where they are many, every other one is labelled."""
    ax.set_xticks(epochs)
    if len(epochs) > 7:
        ax.set_xticklabels([f"{e:g}" if k % 2 == 0 else "" for k, e in enumerate(epochs)])
    ax.margins(x=0.06)


def _legend(curves: Sequence[ArmCurve]) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **curve.style.arguments()) for curve in curves]
    handles.append(Line2D([], [], color=QUIET, linewidth=1.0, linestyle=":"))
    handles.append(Line2D([], [], color="black", marker="*", markersize=8, linestyle=""))
    return handles, [*(curve.label for curve in curves), "ideal model", "initial model"]
