"""A page of panels: each metric over the epochs, with a legend in the last cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.bench._records import Record
from expunge.bench.plots._curve_series import Limits, Series, level_of, limits_of, series_of
from expunge.bench.plots._groups import Group, main_setting
from expunge.bench.plots._style import QUIET, Look, add_note
from expunge.evaluation import METRICS
from expunge.plotting._curves import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = ("mia_entropy", "rua", "ta", "ra", "ua", "fid", "rte")
GOOD = {"ideal": "→ ideal", "higher": "↑", "lower": "↓", "zero": "→ 0", "none": ""}
RANGES = {"%": (0.0, 100.0), "0 to 1": (0.0, 1.0), "s": (0.0, np.inf)}
"""Values that a unit can take; a band is not drawn far beyond them."""


@dataclass(frozen=True)
class Line:
    """One arm of a picture: its records, one a seed."""

    label: str
    look: Look
    records: Sequence[Record]


def evolution_figure(lines: Sequence[Line], group: Group) -> Figure:
    """Every metric of :data:`SHOWN` that the records have, and a legend."""
    shown = [m for m in SHOWN if any(series_of(line.records, m) is not None for line in lines)]
    columns = min(4, len(shown) + 1)
    rows = -(-(len(shown) + 1) // columns)
    figure = new_figure(1.9 * columns, 1.75 * rows + 0.3)
    axes = list(figure.subplots(rows, columns, squeeze=False).flat)
    for ax, metric in zip(axes, shown, strict=False):
        draw_panel(ax, metric, lines, group)
    for ax in axes[len(shown) :]:
        ax.axis("off")
    handles, labels = _legend(lines)
    axes[len(shown)].legend(
        handles, labels, loc="center left", bbox_to_anchor=(-0.12, 0.5), frameon=False,
        handlelength=3.2, labelspacing=0.45, borderaxespad=0.0,
    )  # fmt: skip
    add_note(figure, notes_of(lines, group))
    return figure


def draw_panel(ax: Any, metric: str, lines: Sequence[Line], group: Group) -> None:
    """One metric: means with bands, the ideal's level, and what leaves the axis."""
    known = METRICS[metric]
    found = [(line, series_of(line.records, metric)) for line in lines]
    curves = [(line, series) for line, series in found if series is not None]
    level = level_of(group.ideal, metric)
    scale = limits_of(
        {line.label: s for line, s in curves},
        None if metric == "rte" else level,
        RANGES.get(known.unit, (-np.inf, np.inf)),
    )
    if level is not None and metric == "rte":
        text = f"retraining: {level:.3g} s"
        ax.text(0.04, 0.96, text, transform=ax.transAxes, va="top", fontsize=6.5, color=QUIET)
    elif level is not None:
        ax.axhline(level, color=QUIET, linewidth=1.0, linestyle=":", zorder=1)
    for line, series in curves:
        _draw(ax, line.look, series)
    start = curves[0][1]
    if start.epochs[0] == 0 and metric != "rte":
        ax.plot(0, start.mean[0], marker="*", markersize=8, color="black", zorder=6, clip_on=False)
    ax.set_ylim(_roomy(scale) if metric != "rte" else (0.0, scale.high))
    _mark_outside(ax, scale, {line.label: line.look.colour for line, _ in curves})
    _ticks(ax, np.unique(np.concatenate([series.epochs for _, series in curves])))
    unit = f" ({known.unit})" if known.unit in ("%", "points", "s") else ""
    ax.set_title(f"{known.label}{unit} {GOOD[known.direction]}".strip())
    ax.set_xlabel("epoch", labelpad=1)
    ax.grid(alpha=0.25, linewidth=0.4)


def notes_of(lines: Sequence[Line], group: Group) -> list[str]:
    """Under which setting, over how many seeds, and which runs broke off."""
    main = main_setting(group)
    seeds = sorted({len(line.records) for line in lines})
    over = "1 seed" if seeds == [1] else f"{' to '.join(map(str, seeds))} seeds"
    spread = "" if seeds == [1] else "mean ± standard deviation over "
    names = {"lr": "lr", "alpha": "α", "beta": "β", "batch_size": "batch"}
    setting = ", ".join(f"{word} {main[k]:g}" for k, word in names.items() if main.get(k))
    moments = sorted({r["moments"] for line in lines for r in line.records} - {""})
    kind = f"; {' and '.join(moments)} moments" if moments else ""
    broken = [
        f"{line.label} diverged in {n} of {len(line.records)} runs"
        for line in lines
        if (n := sum(bool(record.diverged) for record in line.records))
    ]
    return [f"{group.title}; {setting}; {spread}{over}{kind}", "; ".join(broken)]


def _draw(ax: Any, look: Look, series: Series) -> None:
    ax.plot(series.epochs, series.mean, **look.line(), zorder=3 + look.filled)
    if len(series.values) > 1:
        low, high = series.mean - series.std, series.mean + series.std
        ax.fill_between(series.epochs, low, high, color=look.colour, alpha=0.10, lw=0, zorder=2)


def _mark_outside(ax: Any, scale: Limits, colours: dict[str, str]) -> None:
    """Say at the edge how far the curves go that leave the axis."""
    for sign, arrow, y, grow in ((-1, "▼", 0.03, 1), (1, "▲", 0.97, -1)):
        beyond = {k: v for k, v in scale.outside.items() if (v < scale.low) == (sign < 0)}
        for row, (label, value) in enumerate(beyond.items()):
            ax.text(
                0.5, y + grow * 0.105 * row, f"{arrow} {label}: {minus(value)}",
                transform=ax.transAxes, ha="center", va="bottom" if sign < 0 else "top",
                fontsize=6.3, color=colours[label], zorder=7,
                bbox={"facecolor": "white", "alpha": 0.8, "lw": 0, "pad": 0.6},
            )  # fmt: skip


def _roomy(scale: Limits) -> tuple[float, float]:
    """The limits with a strip for what :func:`_mark_outside` says."""
    strip = 0.11 * (scale.high - scale.low)
    below = sum(value < scale.low for value in scale.outside.values())
    above = len(scale.outside) - below
    return scale.low - below * strip, scale.high + above * strip


def minus(value: float) -> str:
    """A number in three digits with a true minus sign."""
    return f"{value:.3g}".replace("-", "−")


def _ticks(ax: Any, epochs: Any) -> None:
    """Ticks at the evaluated epochs; where they are many, labels at every other."""
    ax.set_xticks(epochs)
    if len(epochs) > 7:
        ax.set_xticklabels([f"{e:g}" if k % 2 == 0 else "" for k, e in enumerate(epochs)])
    ax.margins(x=0.06)


def _legend(lines: Sequence[Line]) -> tuple[list[Any], list[str]]:
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **line.look.line()) for line in lines]
    handles.append(Line2D([], [], color=QUIET, linewidth=1.0, linestyle=":"))
    handles.append(Line2D([], [], color="black", marker="*", markersize=8, linestyle=""))
    return handles, [*(line.label for line in lines), "ideal model", "initial model"]
