"""Two figures of our own: does an add-on do more than a larger learning rate?

A larger rate moves along the frontier of what is left to forget over TA lost; an add-on that does
more has a lower one. ``frontier`` shows every point of a sweep, ``focus_versus_rate`` sums it up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge._arrays import Array
from expunge.bench._results import Result
from expunge.bench._runs import Variant
from expunge.bench._statistics import Region, mean_over_seeds, verdict
from expunge.bench._sweeps import (
    MAX_LOST,
    MIN_SETTINGS,
    RMIA_AUC,
    RUA,
    SWEPT_ADDONS,
    SWEPT_METHODS,
    UNSEEN,
    Frontiers,
    Remainder,
    StoppingPoint,
    balanced,
    compare_frontiers,
    frontier_at,
    pareto,
    seeds_of,
)
from expunge.bench._tasks import Sweep, TaskResults, group_results, preferred_variants
from expunge.bench.plots._panels import level_of, series_of
from expunge.bench.plots._style import (
    GREY,
    QUIET,
    VERMILLION,
    Drawn,
    LineStyle,
    MissingResults,
    add_note,
    draw_each_task,
    draw_grid,
    line_style,
)
from expunge.report import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


LEAST_SETTINGS = 2
"""Settings that make a curve worth drawing; a claim wants more."""
FAR = 15.0
"""Points of TA lost beyond which nobody asks what is left."""


def preferred_sweep(runs: TaskResults, method: str, addon: str) -> Sweep:
    """The runs of a method with an add-on, of one kind of moments, by hyperparameters and seed."""
    variant = preferred_variants(runs.variants).get((method, addon))
    return {} if variant is None else runs.sweep(variant)


# The frontier: what is left (|rUA|, what RMIA finds or |UA - TA|) against TA lost.


def frontier(results: Sequence[Result]) -> Drawn:
    """What is left against TA lost, a method alone and with each add-on of a sweep."""
    drawn: Drawn = []
    for runs in group_results(results):
        for method in SWEPT_METHODS:
            sweeps = _shown_sweeps(runs, method)
            figure = _frontier_figure(runs, method, sweeps) if sweeps else None
            if figure is not None:
                drawn.append((f"{Variant(method).label.lower()}-{runs.file_name}", figure))
    if not drawn:
        raise MissingResults(
            "there should be runs of a method alone and with FOCUS at two settings, the same for "
            "both, of lr, alpha or epochs."
        )
    return drawn


def _shown_sweeps(runs: TaskResults, method: str) -> dict[str, Sweep]:
    """The method alone, and with the add-ons that have all settings of FOCUS, by add-on."""
    base = preferred_sweep(runs, method, "none")
    swept = {addon: preferred_sweep(runs, method, addon) for addon in SWEPT_ADDONS}

    def shared(*addons: str) -> list[Sweep]:
        return balanced([base, *(swept[addon] for addon in addons)], LEAST_SETTINGS)

    tried = [addon for addon in swept if shared(addon)[0]]
    if "focus" in tried:
        tried = [a for a in tried if len(shared("focus", a)[0]) == len(shared("focus")[0])]
    return dict(zip(("none", *tried), shared(*tried), strict=True)) if tried else {}


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


def _frontier_figure(runs: TaskResults, method: str, sweeps: dict[str, Sweep]) -> Figure | None:
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
        outside = max(outside, _draw_clouds(ax, runs, method, remainder, clouds))
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


def _draw_clouds(
    ax: Any, runs: TaskResults, method: str, remainder: Remainder, clouds: dict[str, Array]
) -> int:
    """Clouds, frontiers and reference models; the number of points that lie outside."""
    # Limits that show nine points in ten and the frontiers, as far as anybody would go.
    corners = {addon: corners_of(points) for addon, points in clouds.items()}
    everything = np.concatenate(list(clouds.values()))
    steps = np.concatenate(list(corners.values()))
    start = _level(runs.initial, remainder)
    right, top = np.maximum(np.quantile(everything, 0.9, axis=0), steps.max(axis=0)).tolist()
    right = min(max(right, 0.1), max(FAR, *(float(step[0, 0]) for step in corners.values())))
    top = max(top, start or 0.0, 0.1)
    top = min(top, max(2 * start, float(steps[:, 1].min()))) if start else top
    right, top = 1.12 * right, 1.15 * top
    low = min(0.0, float(everything[:, 0].min()))

    # Points, frontiers and reference models.
    for addon, points in clouds.items():
        label, style = Variant(method, addon).label, line_style(method, addon)
        _draw_cloud(ax, points, corners[addon], style, label, (right, top))
    _draw_references(ax, runs, remainder)
    ax.set(xlim=(low - 0.04 * (right - low), right), ylim=(-0.03 * top, top))
    ax.set_xlabel("TA lost against the initial model (points)")
    ax.set_ylabel(f"{remainder.label} (points)")
    draw_grid(ax)
    return int(np.sum((everything[:, 0] > right) | (everything[:, 1] > top)))


def _level(models: Sequence[Result], remainder: Remainder) -> float | None:
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
    ax.plot(*corners.T, **style.arguments() | {"linestyle": "", "markersize": 5}, zorder=4)
    ax.plot([], [], **style.arguments(), label=f"{label}: frontier")


def _draw_references(ax: Any, runs: TaskResults, remainder: Remainder) -> None:
    accuracy, left = level_of(runs.initial, "ta"), _level(runs.initial, remainder)
    if accuracy is None or left is None:
        return
    ax.plot(0, left, "*", color="black", ms=9, label="initial model", zorder=5, linestyle="")
    ideal, ideal_left = level_of(runs.ideal, "ta"), _level(runs.ideal, remainder)
    if ideal is not None and ideal_left is not None:
        ax.plot(
            accuracy - ideal, ideal_left, marker="$\\odot$", color=QUIET, ms=8,
            label="ideal model", zorder=5, linestyle="", clip_on=False,
        )  # fmt: skip


# FOCUS against a larger rate: two lines on top of each other mean that they do the same.


def focus_versus_rate(results: Sequence[Result]) -> Drawn:
    """The least |rUA| for each loss of TA, every method alone and with FOCUS."""
    return draw_each_task(
        results,
        _rate_figure,
        f"there should be runs of a method alone and with FOCUS at {MIN_SETTINGS} settings, the "
        "same for both, of lr, alpha or epochs.",
    )


def in_words(frontiers: Frontiers, margin: float = RUA.margin) -> str:
    """What lies between two frontiers, in words: more, the same, less, or inconclusive."""
    area = mean_over_seeds(frontiers.means)
    for words, region in {
        "FOCUS forgets more": Region(high=-margin),
        "the same: a larger rate": Region(-margin, margin),
        "FOCUS forgets less": Region(low=margin),
    }.items():
        if verdict(area.interval, area.n, region) == "held":
            return words
    return "inconclusive"


def _rate_figure(runs: TaskResults) -> Figure | None:
    compared = {}
    for method in SWEPT_METHODS:
        base, focus = (preferred_sweep(runs, method, addon) for addon in ("none", "focus"))
        frontiers = compare_frontiers(base, focus)
        if frontiers.means:
            compared[method] = frontiers
    if not compared:
        return None

    # A panel per method.
    figure = new_figure(2.35 * len(compared) + 0.5, 3.0)
    axes = figure.subplots(1, len(compared), sharey=True, squeeze=False)[0]
    for ax, frontiers in zip(axes, compared.values(), strict=True):
        _draw_means(ax, frontiers)
    axes[0].set_ylabel("still remembered\n(|rUA|, points)", fontsize=9)
    axes[0].set_ylim(bottom=0)
    for ax, method in zip(axes, compared, strict=True):
        _name_lines(ax, Variant(method).label)
    axes[0].annotate(
        "better", (0.06, 0.07), (0.2, 0.2), xycoords="axes fraction", color=GREY, fontsize=8,
        arrowprops={"arrowstyle": "->", "color": GREY},
    )  # fmt: skip

    # Where the numbers come from.
    counts = sorted({frontiers.settings for frontiers in compared.values()})
    settings = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    seeds = min(len(frontiers.means) for frontiers in compared.values())
    add_note(
        figure,
        [
            f"{runs.task.title}. The best of {settings} settings of rate and α at every epoch, "
            f"mean of {seeds} seeds; numbers: mean difference up to "
            f"{MAX_LOST:g} points of TA; bands and numbers in brackets: 95\u00a0% intervals."
        ],
    )
    return figure


def _name_lines(ax: Any, method: str) -> None:
    """Names at the right, above the lines or, where there is no room, below them."""
    heights = np.concatenate([line.get_ydata()[60:] for line in ax.lines]) / ax.get_ylim()[1]
    known = heights[~np.isnan(heights)]
    high = 0.95 if known.size == 0 or known.max() < 0.7 else float(known.min()) - 0.06
    for row, (text, colour) in enumerate(((method, GREY), (f"{method}-FOCUS", VERMILLION))):
        ax.text(
            0.97, high - 0.11 * row, text, color=colour, fontsize=9, weight="bold", ha="right",
            va="top", transform=ax.transAxes,
        )  # fmt: skip


def _draw_means(ax: Any, frontiers: Frontiers) -> None:
    """Means over seeds of their frontiers, so that what lies between them is the area it names."""
    budgets = np.linspace(0.0, MAX_LOST, 121)
    reached = budgets <= frontiers.budgets[-1] + 1e-9
    for fronts, colour, width in (
        (frontiers.base, GREY, 3.2),
        (frontiers.addon, VERMILLION, 2.0),
    ):
        curves = np.array([frontier_at(front, budgets.tolist()) for front in fronts.values()])
        curves[:, ~reached] = np.nan
        ax.plot(budgets, curves.mean(axis=0), color=colour, lw=width, solid_capstyle="round")
        ends = [mean_over_seeds(values).interval or (np.nan, np.nan) for values in curves.T]
        ax.fill_between(budgets, *np.array(ends).T, color=colour, alpha=0.15, lw=0)
    area = mean_over_seeds(frontiers.means)
    interval = "" if area.interval is None else " [{:+.2f}, {:+.2f}]".format(*area.interval)
    ax.set_title(f"{in_words(frontiers)}\n{area.value:+.2f} points{interval}", fontsize=8.5)
    ax.set(xlim=(0, MAX_LOST))
    ax.set_xlabel("accuracy lost (TA, points)", fontsize=9)
    draw_grid(ax)
