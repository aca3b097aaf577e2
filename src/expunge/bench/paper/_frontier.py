"""Our own figure of FOCUS against a larger learning rate: the frontiers of what is left to forget.

A larger rate moves along the frontier over TA lost; an add-on that does more has a lower one. Two
lines on top of each other mean that they do the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge.bench._results import BenchResult, BenchRun
from expunge.bench._tasks import Sweep, TaskResults, preferred_variants
from expunge.bench.paper.claims import _sweeps as sweeps
from expunge.bench.paper.claims._base import Region, mean_over_seeds, verdict
from expunge.bench.plots import _style as style
from expunge.report import new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def preferred_sweep(runs: TaskResults, method: str, addon: str) -> Sweep:
    """The runs of a method with an add-on, of one kind of moments, by hyperparameters and seed."""
    variant = preferred_variants(runs.variants).get((method, addon))
    return {} if variant is None else runs.sweep(variant)


def focus_versus_rate(results: Sequence[BenchResult]) -> style.Drawn:
    """The least |rUA| for each loss of TA, every method alone and with FOCUS."""
    return style.draw_each_task(
        results,
        _rate_figure,
        f"there should be runs of a method alone and with FOCUS at {sweeps.MIN_SETTINGS} settings, "
        "the same for both, of lr, alpha or epochs.",
    )


def in_words(frontiers: sweeps.Frontiers, margin: float = sweeps.RUA.margin) -> str:
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
    for method in sweeps.SWEPT_METHODS:
        base, focus = (preferred_sweep(runs, method, addon) for addon in ("none", "focus"))
        frontiers = sweeps.compare_frontiers(base, focus)
        if frontiers.means:
            compared[method] = frontiers
    if not compared:
        return None

    # A panel per method.
    figure = new_figure(2.35 * len(compared) + 0.5, 3.0)
    axes = figure.subplots(1, len(compared), sharey=True, squeeze=False)[0]
    for ax, (method, frontiers) in zip(axes, compared.items(), strict=True):
        _draw_means(ax, frontiers, BenchRun(method).label)
    axes[0].set_ylabel("still remembered\n(|rUA|, points)", fontsize=9)
    axes[0].set_ylim(bottom=0)
    axes[0].annotate(
        "better", (0.06, 0.07), (0.2, 0.2), xycoords="axes fraction", color=style.GREY, fontsize=8,
        arrowprops={"arrowstyle": "->", "color": style.GREY},
    )  # fmt: skip

    # Where the numbers come from.
    counts = sorted({frontiers.settings for frontiers in compared.values()})
    settings = " to ".join(str(count) for count in dict.fromkeys((counts[0], counts[-1])))
    seeds = min(len(frontiers.means) for frontiers in compared.values())
    style.add_note(
        figure,
        [
            f"{runs.task.title}. The best of {settings} settings of rate and α at every epoch, "
            f"mean of {seeds} seeds; numbers: mean difference up to "
            f"{sweeps.MAX_LOST:g} points of TA; bands and numbers in brackets: 95\u00a0% intervals."
        ],
    )
    return figure


def _draw_means(ax: Any, frontiers: sweeps.Frontiers, method: str) -> None:
    """Means over seeds of their frontiers, so that what lies between them is the area it names."""
    ta_lost = np.linspace(0.0, sweeps.MAX_LOST, 121)
    reached = ta_lost <= frontiers.ta_lost[-1] + 1e-9
    for fronts, name, colour, width in (
        (frontiers.base, method, style.GREY, 3.2),
        (frontiers.other, f"{method}-FOCUS", style.VERMILLION, 2.0),
    ):
        curves = np.array(
            [sweeps.frontier_at(front, ta_lost.tolist()) for front in fronts.values()]
        )
        curves[:, ~reached] = np.nan
        ax.plot(ta_lost, curves.mean(axis=0), color=colour, lw=width, label=name)
        ends = [mean_over_seeds(values).interval or (np.nan, np.nan) for values in curves.T]
        ax.fill_between(ta_lost, *np.array(ends).T, color=colour, alpha=0.15, lw=0)
    area = mean_over_seeds(frontiers.means)
    interval = "" if area.interval is None else " [{:+.2f}, {:+.2f}]".format(*area.interval)
    ax.set_title(f"{in_words(frontiers)}\n{area.value:+.2f} points{interval}", fontsize=8.5)
    ax.legend(loc="upper right", frameon=False)
    ax.set(xlim=(0, sweeps.MAX_LOST))
    ax.set_xlabel("accuracy lost (TA, points)", fontsize=9)
    style.draw_grid(ax)
