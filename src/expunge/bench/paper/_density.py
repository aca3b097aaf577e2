"""fig:distrprob: how f is distributed over the parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from expunge._arrays import Array
from expunge.bench._results import PAPER_METHODS, BenchResult
from expunge.bench._tasks import TaskResults, preferred_variants
from expunge.bench.paper.claims._gradients import UNCERTAIN, zone_sums
from expunge.bench.plots import _style as style
from expunge.report import new_figure
from expunge.update import PublishedMoments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BANDWIDTH = 0.02
EPOCH_LINES = (
    (style.BLUE, "-"),
    (style.ORANGE, "--"),
    (style.GREEN, "-."),
    (style.PINK, (0, (1, 1))),
)


def agreement(results: Sequence[BenchResult]) -> style.Drawn:
    """Histogram and density of f over the epochs, of the first method that ran with FOCUS."""
    needed = "there should be runs with FOCUS that kept a histogram of f. (got none)"
    return style.draw_each_task(results, _figure, needed)


def _figure(runs: TaskResults) -> Figure | None:
    chosen = results_with_histograms(runs)
    shares = mean_shares(chosen)
    if not shares:
        return None

    # Bars of the first epoch, and the density of up to four.
    figure = new_figure(4.6, 3.3)
    ax = figure.subplots()
    every = list(shares)
    count = min(len(every), len(EPOCH_LINES))
    epochs = [every[k] for k in np.linspace(0, len(every) - 1, count).round().astype(int)]
    first = shares[epochs[0]]
    width, at = 1 / len(first), np.linspace(0, 1, 501)
    ax.bar(
        np.arange(len(first)) * width, first / (np.sum(first) * width), width, align="edge",
        color="#C9DCE9", edgecolor="white", lw=0.3, label=f"epoch {epochs[0]}, bins",
    )  # fmt: skip
    for epoch, (colour, dash) in zip(epochs, EPOCH_LINES, strict=False):
        density = kernel_density(shares[epoch], at)
        ax.plot(at, density, color=colour, linestyle=dash, lw=1.4, label=f"epoch {epoch}")

    # The shares that likely disagree, are uncertain, likely agree.
    ax.set_ylim(0, 1.3 * ax.get_ylim()[1])
    for x, word, share in zip(
        (0.2, 0.5, 0.8), ("disagree", "uncertain", "agree"), zones(first), strict=True
    ):
        text = f"{word}\n{100 * share:.0f} %"
        ax.text(x, 0.99, text, transform=ax.get_xaxis_transform(), ha="center", va="top")
    ax.axvline(0.5, ymax=0.76, color="black", lw=1.0, linestyle=":")
    for edge in UNCERTAIN:
        ax.axvline(edge, color=style.QUIET, lw=0.5, alpha=0.5)

    # Axes, and where the numbers come from.
    variant = chosen[0].variant
    ax.set_title(f"{variant.label}, {variant.moments} moments", fontsize=8)
    ax.set(xlim=(0, 1), xlabel="$f_i$ = P[$g_{U,i}\\, g_{C,i} > 0$ | batch]", ylabel="density")
    ax.legend(loc="upper right", bbox_to_anchor=(1.0, 0.84), frameon=False, fontsize=7)
    seeds = f"mean over {len(chosen)} seeds" if len(chosen) > 1 else "1 seed"
    note = f"{runs.task.title}; all parameters, one pair of batches per epoch; {seeds}"
    limits = f"below {UNCERTAIN[0]}, between, and above {UNCERTAIN[1]}"
    lines = [note, f"shares of f {limits} at epoch {epochs[0]}"]
    if variant.moments == "published":  # |ĝ/√v| < 1/√ρ after the first step
        reach = 0.5 * math.erf(1 / math.sqrt(2 * PublishedMoments().rho)) ** 2
        lines[1] += f"; published moments keep f in [{0.5 - reach:.3f}, {0.5 + reach:.3f}]"
    style.add_note(figure, lines)
    return figure


# The numbers: histograms of f, their zones and their density.


def results_with_histograms(runs: TaskResults) -> list[BenchResult]:
    """The results of the first method with FOCUS, one per seed, that kept histograms."""
    variants = preferred_variants(runs.main_variants)
    methods = dict.fromkeys((*PAPER_METHODS, *(method for method, _ in variants)))
    for method in methods:
        if variant := variants.get((method, "focus")):
            results = [result for result in runs.at_main(variant).values() if result.agreement]
            if results:
                return results
    return []


def mean_shares(results: Sequence[BenchResult]) -> dict[int, Array]:
    """Shares of the bins, mean over results, by epoch, for the epochs that every result has."""
    if not results:
        return {}
    common = set.intersection(*(set(result.agreement) for result in results))
    return {
        epoch: np.mean([result.agreement[str(epoch)] for result in results], axis=0)
        for epoch in sorted(int(key) for key in common)
    }


def kernel_density(shares: Array, at: Array, bandwidth: float = BANDWIDTH) -> Array:
    """A Gaussian kernel density on [0, 1] from the shares of equal bins, mirrored at 0 and 1."""
    middle = (np.arange(len(shares)) + 0.5) / len(shares)
    kernels = [norm.pdf(at[:, None], each, bandwidth) for each in (middle, -middle, 2 - middle)]
    return np.asarray(sum(kernels) @ (shares / np.sum(shares)))


def zones(shares: Array) -> tuple[float, float, float]:
    """The shares of parameters that likely disagree, are uncertain, likely agree."""
    disagree, uncertain, agree = (zone_sums(shares) / np.sum(shares)).tolist()
    return disagree, uncertain, agree
