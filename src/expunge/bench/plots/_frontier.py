"""Frontier of |rUA| against TA lost over a sweep, alone and with FOCUS: not a figure of the paper.

It shows whether FOCUS is more than a faster clock, which would move along the same frontier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import (
    CONSTRAINED_METHODS,
    Arm,
    Sweep,
    TaskRuns,
    group_records,
    preferred_arms,
)
from expunge.bench.claims._frontier import StoppingPoint, pareto
from expunge.bench.plots._series import level_of, series_of
from expunge.bench.plots._style import (
    Drawn,
    LineStyle,
    MissingRecords,
    add_note,
    line_style,
    styled,
)
from expunge.plotting import QUIET, Array, draw_grid, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@styled
def frontier(records: Sequence[Record]) -> Drawn:
    """|rUA| against TA lost, base method and FOCUS, over a sweep of settings and epochs."""
    drawn: Drawn = []
    for runs in group_records(records):
        for method in CONSTRAINED_METHODS:
            sweeps = [preferred_sweep(runs, method, addon) for addon in ("none", "focus")]
            base, focus = at_shared_dials(*sweeps)
            clouds = {"none": points_of(base), "focus": points_of(focus)}
            if len(base) > 1 and all(len(points) for points in clouds.values()):
                figure = _figure(runs, method, clouds, len(base))
                drawn.append((f"{Arm(method).label.lower()}-{runs.file_name}", figure))
    if not drawn:
        raise MissingRecords(
            "there should be runs of a method alone and with FOCUS at two settings, the same for "
            "both, of lr, alpha or epochs."
        )
    return drawn


def preferred_sweep(runs: TaskRuns, method: str, addon: str) -> Sweep:
    """The runs of a method with an add-on, of one kind of moments, by dials and seed."""
    arm = preferred_arms(runs.arms).get((method, addon))
    return {} if arm is None else runs.sweep(arm)


def at_shared_dials(base: Sweep, other: Sweep) -> tuple[Sweep, Sweep]:
    """Both sweeps at the dials that both have: neither may win by having tried more."""
    shared = [dials for dials in base if dials in other]
    return {dials: base[dials] for dials in shared}, {dials: other[dials] for dials in shared}


def points_of(sweep: Sweep) -> Array:
    """(TA lost, |rUA|) at every evaluated epoch of every setting, means over seeds, [n, 2]."""
    points = []
    for seeds in sweep.values():
        runs = list(seeds.values())
        accuracy, distance = series_of(runs, "ta"), series_of(runs, "abs_rua")
        if accuracy is None or distance is None or accuracy.epochs[0] != 0:
            continue
        for k, epoch in enumerate(accuracy.epochs):
            at = np.flatnonzero(distance.epochs == epoch)
            if epoch > 0 and len(at):
                points.append((accuracy.mean[0] - accuracy.mean[k], distance.mean[at[0]]))
    return np.array(points, dtype=np.float64).reshape(-1, 2)


def corners_of(points: Array) -> Array:
    """The points [n, 2] that no other point beats in both coordinates, smaller being better.

    Sorted by the first coordinate, so the second falls; of equal points one is kept.

    >>> corners_of(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 4.0], [3.0, 2.0]])).tolist()
    [[1.0, 3.0], [2.0, 2.0]]
    """
    best = pareto(StoppingPoint(lost, distance) for lost, distance in points.tolist())
    return np.array(best, dtype=np.float64).reshape(-1, 2)


def _figure(runs: TaskRuns, method: str, clouds: dict[str, Array], settings: int) -> Figure:
    figure = new_figure(4.6, 3.9)
    ax = figure.subplots()

    # Both clouds with their frontiers, and the reference models.
    corners = {addon: corners_of(points) for addon, points in clouds.items()}
    right, top = _bounds(clouds, corners, runs)
    for addon, points in clouds.items():
        label = Arm(method, addon).label
        style = line_style(method, addon)
        _draw_cloud(ax, points, corners[addon], style, label, (right, top))
    _draw_references(ax, runs)

    # Limits, titles and the small print.
    low = min(0.0, *(float(points[:, 0].min()) for points in clouds.values()))
    ax.set(xlim=(low - 0.04 * (right - low), right), ylim=(-0.03 * top, top))
    ax.set_xlabel("TA lost against the initial model (points)")
    ax.set_ylabel("|rUA| (points)")
    draw_grid(ax, 0.4)
    figure.legend(loc="outside upper center", ncols=2, frameon=False)
    outside = sum(int(np.sum((p[:, 0] > right) | (p[:, 1] > top))) for p in clouds.values())
    add_note(
        figure,
        [
            runs.task.title,
            f"{settings} settings, each alone and with FOCUS; a point is an evaluated epoch, "
            "mean over seeds",
            f"{outside} points lie outside" if outside else "",
        ],
    )
    return figure


def _bounds(
    clouds: dict[str, Array], corners: dict[str, Array], runs: TaskRuns
) -> tuple[float, float]:
    """Limits that show both frontiers and nine points in ten."""
    everything = np.concatenate(list(clouds.values()))
    steps = np.concatenate(list(corners.values()))
    start = level_of(runs.initial, "abs_rua") or 0.0
    right = max(float(np.quantile(everything[:, 0], 0.9)), float(steps[:, 0].max()), 0.1)
    top = max(float(np.quantile(everything[:, 1], 0.9)), float(steps[:, 1].max()), start, 0.1)
    return 1.12 * right, 1.15 * top


def _draw_cloud(
    ax: Any,
    points: Array,
    corners: Array,
    style: LineStyle,
    label: str,
    limits: tuple[float, float],
) -> None:
    face = style.colour if style.filled else "none"
    ax.scatter(
        *points.T, s=13, marker=style.marker, facecolor=face, edgecolor=style.colour, alpha=0.3,
        lw=0.7, zorder=2,
    )  # fmt: skip
    x = np.concatenate([corners[:1, 0], corners[:, 0], [limits[0]]])
    y = np.concatenate([[limits[1]], corners[:, 1], corners[-1:, 1]])
    line = {"color": style.colour, "linestyle": style.dash, "lw": 1.6}
    ax.plot(x, y, drawstyle="steps-post", **line, zorder=3)
    markers = style.arguments() | {"linestyle": "", "markersize": 5}
    ax.plot(*corners.T, **markers, zorder=4)
    ax.plot([], [], **style.arguments(), label=f"{label}: frontier")


def _draw_references(ax: Any, runs: TaskRuns) -> None:
    start, ideal = (
        (level_of(models, "ta"), level_of(models, "abs_rua"))
        for models in (runs.initial, runs.ideal)
    )
    if start[0] is None:
        return
    ax.plot(0, start[1], "*", color="black", ms=9, label="initial model", zorder=5, linestyle="")
    if ideal[0] is not None:
        ax.plot(
            start[0] - ideal[0], 0, marker="$\\odot$", color=QUIET, ms=8, label="ideal model",
            zorder=5, linestyle="", clip_on=False,
        )  # fmt: skip
