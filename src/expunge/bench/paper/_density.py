"""fig:distrprob: how f is distributed over the parameters."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from expunge._arrays import Array
from expunge.bench._results import Result
from expunge.bench._runs import CONSTRAINED_METHODS, Variant
from expunge.bench._tasks import TaskResults, one_per_seed
from expunge.bench.paper.claims._gradients import UNCERTAIN, zone_sums
from expunge.bench.plots._style import (
    BLUE,
    GREEN,
    ORANGE,
    PINK,
    QUIET,
    Drawn,
    add_note,
    draw_each_task,
)
from expunge.report import new_figure
from expunge.update import PublishedMoments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANDWIDTH = 0.02
MOMENTS_SHOWN = ("published", "adam")
"""Where there are several kinds of moments, these come first."""
EPOCH_LINES = ((BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PINK, (0, (1, 1))))


def agreement(results: Sequence[Result]) -> Drawn:
    """Histogram and density of f: one method over the epochs, the other runs beside it."""
    needed = "there should be runs with FOCUS that kept a histogram of f. (got none)"
    return draw_each_task(results, _figure, needed)


def _figure(runs: TaskResults) -> Figure | None:
    distributions = distributions_of(runs)
    if not distributions:
        return None

    # One method over the epochs to the left, up to three others to the right.
    first, others = distributions[0], distributions[1:4]
    figure = new_figure(7.2 if others else 4.6, 3.3)
    ratios = [1.7, 1] if others else [1]
    grid = figure.add_gridspec(max(len(others), 1), len(ratios), width_ratios=ratios)
    _draw_epochs(figure.add_subplot(grid[:, 0]), first)
    for row, other in enumerate(others):
        ax = figure.add_subplot(grid[row, 1])
        _draw_small(ax, other, last=row == len(others) - 1)

    # Where the numbers come from.
    seeds = f"mean over {first.seeds} seeds" if first.seeds > 1 else "1 seed"
    note = f"{runs.task.title}; all parameters, one pair of batches per epoch; {seeds}"
    limits = f"below {UNCERTAIN[0]}, between, and above {UNCERTAIN[1]}"
    when = f"shares of f {limits} at epoch {next(iter(first.shares))}"
    add_note(figure, [note, "; ".join(filter(None, [when, _bound(distributions[:4])]))])
    return figure


def _bound(shown: Sequence[Distribution]) -> str:
    """What the published recursion rules out: |ĝ/√v| < 1/√ρ after the first step."""
    if all(each.moments != "published" for each in shown):
        return ""
    reach = 0.5 * math.erf(1 / math.sqrt(2 * PublishedMoments().rho)) ** 2
    return f"published moments keep f between {0.5 - reach:.3f} and {0.5 + reach:.3f}"


def _draw_epochs(ax: Any, distribution: Distribution) -> None:
    every = list(distribution.shares)
    count = min(len(every), len(EPOCH_LINES))
    epochs = [every[k] for k in np.linspace(0, len(every) - 1, count).round().astype(int)]
    at = np.linspace(0, 1, 501)
    _draw_bars(ax, distribution.shares[epochs[0]], label=f"epoch {epochs[0]}, bins")
    for epoch, (colour, dash) in zip(epochs, EPOCH_LINES, strict=False):
        density = kernel_density(distribution.shares[epoch], at)
        ax.plot(at, density, color=colour, linestyle=dash, lw=1.4, label=f"epoch {epoch}")
    ax.set_ylim(0, 1.3 * ax.get_ylim()[1])
    for (x, word), share in zip(
        ((0.2, "disagree"), (0.5, "uncertain"), (0.8, "agree")),
        zones(distribution.shares[epochs[0]]),
        strict=True,
    ):
        text = f"{word}\n{100 * share:.0f} %"
        ax.text(x, 0.99, text, transform=ax.get_xaxis_transform(), ha="center", va="top")
    _frame(ax, distribution.label)
    ax.legend(loc="upper right", bbox_to_anchor=(1.0, 0.84), frameon=False, fontsize=7)
    ax.set_xlabel("$f_i$ = P[$g_{U,i}\\, g_{C,i} > 0$ | batch]")
    ax.set_ylabel("density")


def _draw_small(ax: Any, distribution: Distribution, *, last: bool) -> None:
    epoch = next(iter(distribution.shares))
    at = np.linspace(0, 1, 501)
    _draw_bars(ax, distribution.shares[epoch])
    ax.plot(at, kernel_density(distribution.shares[epoch], at), color=BLUE, lw=1.2)
    ax.set_ylim(0, 1.35 * ax.get_ylim()[1])
    for x, share in zip((0.2, 0.5, 0.8), zones(distribution.shares[epoch]), strict=True):
        ax.text(
            x, 0.97, f"{100 * share:.0f} %", transform=ax.get_xaxis_transform(), ha="center",
            va="top", fontsize=7,
        )  # fmt: skip
    _frame(ax, f"{distribution.label}, epoch {epoch}")
    ax.set_yticks([])
    if last:
        ax.set_xlabel("$f_i$", labelpad=2)
    else:
        ax.set_xticklabels([])


def _draw_bars(ax: Any, shares: Array, label: str = "") -> None:
    width = 1 / len(shares)
    ax.bar(
        np.arange(len(shares)) * width, shares / (np.sum(shares) * width), width, align="edge",
        color="#C9DCE9", edgecolor="white", lw=0.3, label=label or None,
    )  # fmt: skip


def _frame(ax: Any, title: str) -> None:
    ax.axvline(0.5, ymax=0.76, color="black", lw=1.0, linestyle=":")
    for edge in UNCERTAIN:
        ax.axvline(edge, color=QUIET, lw=0.5, alpha=0.5)
    ax.set_title(title, fontsize=8)
    ax.set_xlim(0, 1)
    ax.set_xticks([0, 0.2, 0.4, 0.5, 0.6, 0.8, 1])
    ax.set_xticklabels(["0", "0.2", "0.4", "½", "0.6", "0.8", "1"])


# The numbers: histograms of f, their zones and their density.


@dataclass(frozen=True)
class Distribution:
    """Histograms of f, mean over seeds, by epoch."""

    method: str
    moments: str
    seeds: int
    shares: dict[int, Array]

    @property
    def label(self) -> str:
        """The variant and its moments."""
        return f"{Variant(self.method, 'focus').label}, {self.moments} moments"


def distributions_of(runs: TaskResults) -> list[Distribution]:
    """FOCUS at the main hyperparameters: one method with each kind of moments, then the others."""
    variants = {
        variant: [result for result in results if result.agreement]
        for variant, results in runs.main_variants.items()
        if variant.addon == "focus"
    }
    moments = dict.fromkeys((*MOMENTS_SHOWN, *(variant.moments for variant in variants)))
    methods = dict.fromkeys((*CONSTRAINED_METHODS, *(variant.method for variant in variants)))
    distributions = []
    for method, kind in itertools.product(methods, moments):
        results = list(one_per_seed(variants.get(Variant(method, "focus", kind), ())).values())
        if results and (shares := _mean_shares(results)):
            distributions.append(Distribution(method, kind, len(results), shares))
    return sorted(
        distributions,
        key=lambda d: (d.method != distributions[0].method, d.moments != distributions[0].moments),
    )


def kernel_density(shares: Array, at: Array, bandwidth: float = BANDWIDTH) -> Array:
    """A Gaussian kernel density on [0, 1] from the shares of equal bins, mirrored at 0 and 1."""
    middle = (np.arange(len(shares)) + 0.5) / len(shares)
    weights = np.asarray(shares, dtype=np.float64) / np.sum(shares)
    total = np.zeros_like(at)
    for where in (middle, -middle, 2.0 - middle):
        z = (at[:, None] - where) / bandwidth
        total += np.exp(-0.5 * z * z) @ weights
    return np.asarray(total / (bandwidth * math.sqrt(2 * math.pi)))


def zones(shares: Array) -> tuple[float, float, float]:
    """The shares of parameters that likely disagree, are uncertain, likely agree."""
    disagree, uncertain, agree = (zone_sums(shares) / np.sum(shares)).tolist()
    return disagree, uncertain, agree


def _mean_shares(runs: Sequence[Result]) -> dict[int, Array]:
    """By epoch, for the epochs that every run has."""
    common = set.intersection(*(set(run.agreement) for run in runs))
    return {
        epoch: np.mean([run.agreement[str(epoch)] for run in runs], axis=0)
        for epoch in sorted(int(key) for key in common)
    }
