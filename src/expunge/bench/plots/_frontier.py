"""Frontiers over a sweep, a method alone and with add-ons: not a figure of the paper.

What is left to forget, |rUA|, what RMIA finds or |UA - TA|, against TA lost. They show whether an
add-on does more than a larger learning rate, which would move along the same frontier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge._arrays import Array
from expunge.bench._results import Result
from expunge.bench._runs import Variant
from expunge.bench._sweeps import (
    RMIA_AUC,
    RUA,
    SWEPT_ADDONS,
    SWEPT_METHODS,
    UNSEEN,
    Remainder,
    StoppingPoint,
    balanced,
    pareto,
    seeds_of,
)
from expunge.bench._tasks import Sweep, TaskResults, group_results, preferred_variants
from expunge.bench.plots._panels import level_of, series_of
from expunge.bench.plots._style import (
    QUIET,
    Drawn,
    LineStyle,
    MissingResults,
    add_note,
    draw_grid,
    line_style,
    styled,
)
from expunge.report import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEAST_SETTINGS = 2
"""Settings that make a curve worth drawing; a claim wants more."""
FAR = 15.0
"""Points of TA lost beyond which nobody asks what is left."""


@styled
def frontier(results: Sequence[Result]) -> Drawn:
    """What is left against TA lost, a method alone and with each add-on of a sweep."""
    drawn: Drawn = []
    for runs in group_results(results):
        for method in SWEPT_METHODS:
            base = preferred_sweep(runs, method, "none")
            swept = {addon: preferred_sweep(runs, method, addon) for addon in SWEPT_ADDONS}
            for suffix, addons in _selections(base, swept).items():
                names = ("none", *addons)
                sweeps = balanced([base, *(swept[a] for a in addons)], LEAST_SETTINGS)
                figure = _figure(runs, method, dict(zip(names, sweeps, strict=True)))
                if figure is not None:
                    name = f"{Variant(method).label.lower()}{suffix}-{runs.file_name}"
                    drawn.append((name, figure))
    if not drawn:
        raise MissingResults(
            "there should be runs of a method alone and with FOCUS at two settings, the same for "
            "both, of lr, alpha or epochs."
        )
    return drawn


def _selections(base: Sweep, swept: dict[str, Sweep]) -> dict[str, list[str]]:
    """The add-ons of each figure by the end of its name.

    First FOCUS, with the add-ons that have all its settings; then, where that leaves some out, all
    of them, at the settings that all share.
    """

    def settings(addons: Sequence[str]) -> int:
        return len(balanced([base, *(swept[a] for a in addons)], LEAST_SETTINGS)[0])

    tried = [addon for addon in swept if settings([addon])]
    first = [a for a in tried if "focus" in tried and settings(["focus", a]) == settings(["focus"])]
    figures = {"": first or tried}
    if settings(tried) and figures[""] != tried:
        figures["-all"] = tried
    return {suffix: addons for suffix, addons in figures.items() if addons}


def preferred_sweep(runs: TaskResults, method: str, addon: str) -> Sweep:
    """The runs of a method with an add-on, of one kind of moments, by hyperparameters and seed."""
    variant = preferred_variants(runs.variants).get((method, addon))
    return {} if variant is None else runs.sweep(variant)


def points_of(sweep: Sweep, remainder: Remainder = RUA) -> Array:
    """(TA lost, what is left) at every evaluated epoch of every setting, means over seeds, [n, 2].

    Every seed's distance from the ideal counts, not that of their mean.
    """
    points = []
    for seeds in sweep.values():
        runs = list(seeds.values())
        accuracy = series_of(runs, "ta")
        if accuracy is None or accuracy.epochs[0] != 0:
            continue
        for k, epoch in enumerate(accuracy.epochs):
            left = [remainder.of(run.at(int(epoch))) for run in runs]
            known = [value for value in left if value is not None]
            if epoch > 0 and len(known) == len(runs):
                points.append((accuracy.mean[0] - accuracy.mean[k], float(np.mean(known))))
    return np.array(points, dtype=np.float64).reshape(-1, 2)


def corners_of(points: Array) -> Array:
    """The points [n, 2] that no other point beats in both coordinates, smaller being better.

    Sorted by the first coordinate, so the second falls; of equal points one is kept.

    >>> corners_of(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 4.0], [3.0, 2.0]])).tolist()
    [[1.0, 3.0], [2.0, 2.0]]
    """
    best = pareto(StoppingPoint(lost, distance) for lost, distance in points.tolist())
    return np.array(best, dtype=np.float64).reshape(-1, 2)


def _figure(runs: TaskResults, method: str, sweeps: dict[str, Sweep]) -> Figure | None:
    """A panel per kind of remainder; None where nothing was measured."""
    panels = {
        remainder: {addon: points_of(sweep, remainder) for addon, sweep in sweeps.items()}
        for remainder in (RUA, RMIA_AUC, UNSEEN)
    }
    panels = {r: clouds for r, clouds in panels.items() if all(map(len, clouds.values()))}
    if not panels:
        return None
    figure = new_figure(4.4 * len(panels), 4.1)
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    outside = 0
    for ax, (remainder, clouds) in zip(axes, panels.items(), strict=True):
        outside = max(outside, _draw_panel(ax, runs, method, remainder, clouds))
    handles, labels = axes[0].get_legend_handles_labels()
    columns = min(len(labels), 3 * len(panels))
    figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)
    names = ", ".join(Variant(method, addon).label for addon in sweeps)
    base = sweeps["none"]
    add_note(
        figure,
        [
            runs.task.title,
            f"{len(base)} settings, the same for {names}; a point is an evaluated epoch, mean over "
            f"{len(seeds_of(base))} seeds",
            f"up to {outside} points of a panel lie outside" if outside else "",
        ],
    )
    return figure


def _draw_panel(
    ax: Any, runs: TaskResults, method: str, remainder: Remainder, clouds: dict[str, Array]
) -> int:
    """Clouds, frontiers and reference models; the number of points that lie outside."""
    corners = {addon: corners_of(points) for addon, points in clouds.items()}
    start = _reference_level(runs.initial, remainder)
    right, top = _bounds(clouds, corners, start)
    for addon, points in clouds.items():
        label = Variant(method, addon).label
        style = line_style(method, addon)
        _draw_cloud(ax, points, corners[addon], style, label, (right, top))
    _draw_references(ax, runs, remainder)
    low = min(0.0, *(float(points[:, 0].min()) for points in clouds.values()))
    ax.set(xlim=(low - 0.04 * (right - low), right), ylim=(-0.03 * top, top))
    ax.set_xlabel("TA lost against the initial model (points)")
    ax.set_ylabel(f"{remainder.label} (points)")
    draw_grid(ax)
    return sum(int(np.sum((p[:, 0] > right) | (p[:, 1] > top))) for p in clouds.values())


def _bounds(
    clouds: dict[str, Array], corners: dict[str, Array], start: float | None
) -> tuple[float, float]:
    """Limits that show nine points in ten and the frontiers, as far as anybody would go."""
    everything = np.concatenate(list(clouds.values()))
    steps = np.concatenate(list(corners.values()))
    right = max(float(np.quantile(everything[:, 0], 0.9)), float(steps[:, 0].max()), 0.1)
    top = max(
        float(np.quantile(everything[:, 1], 0.9)), float(steps[:, 1].max()), start or 0.0, 0.1
    )
    first = max(float(step[0, 0]) for step in corners.values())
    right = min(right, max(FAR, first))
    top = min(top, max(2 * start, float(steps[:, 1].min()))) if start else top
    return 1.12 * right, 1.15 * top


def _reference_level(models: Sequence[Result], remainder: Remainder) -> float | None:
    left = [value for model in models if (value := remainder.of(model.final)) is not None]
    return float(np.mean(left)) if left else None


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


def _draw_references(ax: Any, runs: TaskResults, remainder: Remainder) -> None:
    start, ideal = (
        (level_of(models, "ta"), _reference_level(models, remainder))
        for models in (runs.initial, runs.ideal)
    )
    if start[0] is None or start[1] is None:
        return
    ax.plot(0, start[1], "*", color="black", ms=9, label="initial model", zorder=5, linestyle="")
    if ideal[0] is not None and ideal[1] is not None:
        ax.plot(
            start[0] - ideal[0], ideal[1], marker="$\\odot$", color=QUIET, ms=8,
            label="ideal model", zorder=5, linestyle="", clip_on=False,
        )  # fmt: skip
