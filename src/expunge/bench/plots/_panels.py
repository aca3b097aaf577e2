"""A page of panels: each metric over the epochs, with a legend in the last cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge._arrays import Array
from expunge.bench._results import Result
from expunge.bench._tasks import TaskResults
from expunge.bench.plots._style import QUIET, LineStyle, add_note, draw_grid
from expunge.evaluation import METRICS
from expunge.report import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

METRICS_SHOWN = ("mia_entropy", "rua", "ta", "ra", "ua", "fid", "rte")
GOOD = {"ideal": "→ ideal", "higher": "↑", "lower": "↓", "zero": "→ 0", "none": ""}
RANGES = {"%": (0.0, 100.0), "0 to 1": (0.0, 1.0), "s": (0.0, np.inf)}
"""Values that a unit can take; a band is not drawn far beyond them."""
FAR = 3.0
"""A curve that goes this many times further than the others does not set the limits."""


@dataclass(frozen=True)
class Curve:
    """One variant of a figure: its results, one per seed, and how they are drawn."""

    label: str
    style: LineStyle
    results: Sequence[Result]


def panels_figure(curves: Sequence[Curve], runs: TaskResults) -> Figure:
    """Every metric of :data:`METRICS_SHOWN` that the results have, and a legend."""
    shown = [
        metric
        for metric in METRICS_SHOWN
        if any(series_of(curve.results, metric) is not None for curve in curves)
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


def draw_panel(ax: Any, metric: str, curves: Sequence[Curve], runs: TaskResults) -> None:
    """One metric: means with bands, the ideal's level, and what leaves the axis."""
    about = METRICS[metric]
    measured = [
        (curve, series)
        for curve in curves
        if (series := series_of(curve.results, metric)) is not None
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
    draw_grid(ax)


def notes_of(curves: Sequence[Curve], runs: TaskResults) -> list[str]:
    """The hyperparameters, the number of seeds, and which runs diverged."""
    seeds = sorted({len(curve.results) for curve in curves})
    over = "1 seed" if seeds == [1] else f"{' to '.join(map(str, seeds))} seeds"
    spread = "" if seeds == [1] else "mean ± standard deviation over "
    words = {"lr": "lr", "alpha": "α", "beta": "β", "batch_size": "batch"}
    values = {word: getattr(runs.main, name) for name, word in words.items()}
    weights = ", ".join(f"{word} {value:g}" for word, value in values.items() if value)
    moments = sorted({result.moments for curve in curves for result in curve.results} - {""})
    kind = f"; {' and '.join(moments)} moments" if moments else ""
    diverged = [
        f"{curve.label} diverged in {n} of {len(curve.results)} runs"
        for curve in curves
        if (n := sum(bool(result.diverged) for result in curve.results))
    ]
    return [f"{runs.task.title}; {weights}; {spread}{over}{kind}", "; ".join(diverged)]


def _draw_series(ax: Any, style: LineStyle, series: Series) -> None:
    ax.plot(series.epochs, series.mean, **style.arguments(), zorder=3 + style.filled)
    if len(series.values) > 1:
        low, high = series.mean - series.std, series.mean + series.std
        ax.fill_between(series.epochs, low, high, color=style.colour, alpha=0.1, lw=0, zorder=2)


def _mark_outside(ax: Any, limits: Limits, colours: dict[str, str]) -> None:
    """Note at the edge how far the curves go that leave the axis."""
    for sign, arrow, y, grow in ((-1, "▼", 0.03, 1), (1, "▲", 0.97, -1)):
        beyond = {k: v for k, v in limits.outside.items() if (v < limits.low) == (sign < 0)}
        for row, (label, value) in enumerate(beyond.items()):
            reached = f"{value:.3g}".replace("-", "−")  # a true minus sign
            ax.text(
                0.5, y + grow * 0.105 * row, f"{arrow} {label}: {reached}",
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


def _set_ticks(ax: Any, epochs: Any) -> None:
    """Ticks at the evaluated epochs; where they are many, every other one is labelled."""
    ax.set_xticks(epochs)
    if len(epochs) > 7:
        ax.set_xticklabels([f"{e:g}" if k % 2 == 0 else "" for k, e in enumerate(epochs)])
    ax.margins(x=0.06)


def _legend(curves: Sequence[Curve]) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **curve.style.arguments()) for curve in curves]
    handles.append(Line2D([], [], color=QUIET, linewidth=1.0, linestyle=":"))
    handles.append(Line2D([], [], color="black", marker="*", markersize=8, linestyle=""))
    return handles, [*(curve.label for curve in curves), "ideal model", "initial model"]


@dataclass(frozen=True)
class Series:
    """A metric: epochs [E] and values [seeds, E]."""

    epochs: Array
    values: Array

    @property
    def mean(self) -> Array:
        """Mean over the seeds, [E]."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def std(self) -> Array:
        """Standard deviation over the seeds (n - 1), [E]; zeros for a single seed."""
        if len(self.values) < 2:
            return np.zeros(self.values.shape[1])
        return np.asarray(self.values.std(axis=0, ddof=1))


def series_of(results: Sequence[Result], metric: str) -> Series | None:
    """A metric at the evaluated epochs that every result has, so that a mean is over all seeds."""
    epochs = sorted({row["epoch"] for result in results for row in result.evaluated})
    table = [[result.value(metric, epoch) for result in results] for epoch in epochs]
    complete = [k for k, row in enumerate(table) if None not in row]
    if not complete:
        return None
    values = np.array([table[k] for k in complete], dtype=np.float64).T
    return Series(np.array([epochs[k] for k in complete], dtype=np.float64), values)


def level_of(references: Sequence[Result], metric: str) -> float | None:
    """The mean of a metric over reference models; None where none has it."""
    values = [v for result in references if (v := result.value(metric)) is not None]
    return float(np.mean(values)) if values else None


@dataclass(frozen=True)
class Limits:
    """The range of an axis, and the lowest or highest value of each curve that leaves it."""

    low: float
    high: float
    outside: dict[str, float]


def limits_of(
    curves: Mapping[str, Series],
    level: float | None = None,
    possible: tuple[float, float] = (-np.inf, np.inf),
) -> Limits:
    """The range of an axis that shows all curves except those that collapse.

    A curve's reach is how far its mean goes from where it starts. In the order of their reach, the
    first curve beyond the better half that goes :data:`FAR` times as far as the one before it (and
    as the ideal's level) is left out, and with it all that follow. Bands that pass what is
    ``possible`` do not count.
    """
    # Leave out the curves that go far beyond the others.
    reach = {name: float(np.abs(s.mean - s.mean[0]).max()) for name, s in curves.items()}
    order = sorted(reach, key=lambda name: reach[name])
    start = np.median([s.mean[0] for s in curves.values()])
    floor = 0.0 if level is None else abs(level - float(start))
    kept = order
    for k in range((len(order) + 1) // 2, len(order)):
        before = max(reach[order[k - 1]], floor)
        if 0 < FAR * before < reach[order[k]]:
            kept = order[:k]
            break

    # Fit the range to the bands of the others, and to the ideal's level.
    fitted = [curves[name] for name in kept]
    bands = [s.mean - s.std for s in fitted] + [s.mean + s.std for s in fitted]
    bands += [] if level is None else [np.array([level])]
    low, high = float(np.min(np.concatenate(bands))), float(np.max(np.concatenate(bands)))
    margin = 0.07 * (high - low) or 0.02 * max(abs(high), 1.0)
    low, high = max(low, possible[0]) - margin, min(high, possible[1]) + margin

    # How far the curves go that were left out.
    outside = {}
    for name in curves:
        if name not in kept:
            mean = curves[name].mean
            outside[name] = float(mean[np.argmax(np.maximum(low - mean, mean - high))])
    return Limits(low, high, outside)
