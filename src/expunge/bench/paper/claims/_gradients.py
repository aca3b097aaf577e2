"""Claims on the two gradients: their product is near zero and falls, and how many signs agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from expunge._arrays import Array
from expunge.bench._results import PAPER_METHODS, BenchResult
from expunge.bench._tasks import TaskResults
from expunge.bench.paper.claims._base import Claim, ClaimFinding, OfEachRun, Region, settle

TINY = 1e-300
UNCERTAIN = (0.4, 0.6)
"""A parameter with f below disagrees, one above agrees.

With the published moments f stays within [0.249, 0.751]. By these thresholds, the lowest three
tenths of that range likely disagree and the highest agree; both are edges of the histogram's bins.
"""
SMALL_COSINE = 0.1
QUARTERS_MARGIN = 10.0
"""Points that the shares of parameters may be off 25, 50 and 25 %."""
SMALL_PEAK = 0.1
"""The part of ‖∇L‖∞ on unseen data that nobody would call about zero any more."""
END_SHARE = 0.25
"""The part of the steps at either end whose medians are compared."""


def zone_sums(bins: Array) -> Array:
    """The parts of a histogram of f that disagree, are uncertain and agree, [3]."""
    low, high = (round(edge * len(bins)) for edge in UNCERTAIN)
    return np.array([part.sum() for part in (bins[:low], bins[low:high], bins[high:])])


def _magnitudes(result: BenchResult, name: str) -> Array:
    """|quantity| of every step that has it; none of a run that diverged."""
    values = [] if result.diverged else result.steps.get(name, [])
    return np.array([abs(value) for value in values if value is not None], dtype=np.float64)


def median_cosine(result: BenchResult) -> float | None:
    """The median over the steps of |cos(ĝ_U, ĝ_C)|."""
    steps = _magnitudes(result, "cosine")
    return float(np.median(steps)) if len(steps) else None


def _cosines_in_words(results: list[BenchResult]) -> str:
    """The share of small ones, and their mean: Proposition 6 supposes a mean product of zero."""
    steps = np.concatenate([_magnitudes(result, "cosine") for result in results])
    signed = [v for result in results for v in result.steps["cosine"] if v is not None]
    share = 100 * np.mean(steps < SMALL_COSINE)
    return f"{share:.0f} % of steps below {SMALL_COSINE:g}, mean cosine {np.mean(signed):+.3f}"


def _ends(
    result: BenchResult, name: str, average: Callable[..., Any]
) -> tuple[float, float] | None:
    """The average magnitude of the first and of the last part of the steps."""
    steps = _magnitudes(result, name)
    k = int(END_SHARE * len(steps))
    return (float(average(steps[:k])), float(average(steps[-k:]))) if k else None


def _ends_over(results: list[BenchResult], name: str, average: Callable[..., Any]) -> Any:
    """The average of both ends over several runs, [2]."""
    ends = [found for result in results if (found := _ends(result, name, average)) is not None]
    return average(ends, axis=0)


def fall_in_decades(result: BenchResult) -> float | None:
    """log10 of the last part over the first; the paper's products fall by five, 1e-5 to 1e-10."""
    medians = _ends(result, "product", np.median)
    return medians and float(np.log10(max(medians[1], TINY) / max(medians[0], TINY)))


def _products_in_words(results: list[BenchResult]) -> str:
    early, late = _ends_over(results, "product", np.median)
    return f"|product| {early:.1e} → {late:.1e}"


def mask_growth(result: BenchResult) -> float | None:
    """The share moved by the last part of the steps minus that moved by the first, in points."""
    ends = _ends(result, "moved", np.mean)
    return ends and 100 * (ends[1] - ends[0])


def _moved_in_words(results: list[BenchResult]) -> str:
    early, late = 100 * _ends_over(results, "moved", np.mean)
    return f"{early:.1f} → {late:.1f} % of the parameters moved"


def _shares(result: BenchResult) -> Array | None:
    """Per cent that disagree, are uncertain, agree, in the last histogram."""
    if not result.agreement or result.diverged:
        return None
    bins = np.array(result.agreement[max(result.agreement, key=int)], dtype=np.float64)
    return 100 * zone_sums(bins) / bins.sum() if bins.sum() > 0 else None


def off_the_quarters(result: BenchResult) -> float | None:
    """The largest distance of the three shares from 25, 50 and 25 % at the last epoch."""
    shares = _shares(result)
    return None if shares is None else float(np.abs(shares - [25.0, 50.0, 25.0]).max())


def _shares_in_words(results: list[BenchResult]) -> str:
    shares = [found for result in results if (found := _shares(result)) is not None]
    disagree, uncertain, agree = np.mean(shares, axis=0)
    return f"{disagree:.0f} % disagree, {uncertain:.0f} % uncertain, {agree:.0f} % agree"


def flat_constraint(claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
    """‖∇L‖∞ of initial models on retained data over that on unseen data, averaged as logarithms."""
    for runs in tasks:
        peaks = [[r.value(f"{name}_peak") for name in ("retain", "unseen")] for r in runs.initial]
        values = [math.log(a / b) for a, b in peaks if a and b]
        if values:
            region = Region(high=math.log(SMALL_PEAK))
            yield settle(claim, runs.name, values, region, "× unseen", scale=math.exp)


_of_each = partial(OfEachRun, methods=PAPER_METHODS)
_QUARTERS = Region(high=QUARTERS_MARGIN)
PRODUCT_ZERO = Claim(
    "product-zero",
    f"⟨g_U, g_C⟩ concentrates at zero: the median |cosine| of steps is below {SMALL_COSINE}.",
    "Sect. 5.3, the hypothesis of Prop. 6; the bound is ours",
    _of_each(median_cosine, _cosines_in_words, Region(high=SMALL_COSINE), "|cos|", addon="focus"),
)
PRODUCT_SHRINKS = Claim(
    "product-shrinks",
    "|⟨g_U, g_C⟩| shrinks over the run: last quarter of the steps against the first.",
    "Sect. 5.3: from 1e-5 to 1e-10",
    _of_each(fall_in_decades, _products_in_words, Region(high=0.0), "decades", addon="focus"),
)
QUARTERS = Claim(
    "quarters",
    "Roughly a quarter of the parameters disagrees (f < 0.4), half is uncertain, a quarter agrees "
    f"(f > 0.6): within {QUARTERS_MARGIN:g} points.",
    "Fig. 3 and Sect. 5.1; thresholds and margin are ours",
    _of_each(off_the_quarters, _shares_in_words, _QUARTERS, "points off", addon="focus"),
)
AND_SHRINKS = Claim(
    "and-shrinks",
    "The mask of AND shrinks over the run: last quarter of the steps against the first.",
    'Sect. 4.2: the norm of the mask "happens to decrease"',
    _of_each(mask_growth, _moved_in_words, Region(high=0.0), "points", addon="and"),
)
FLAT_CONSTRAINT = Claim(
    "flat-constraint",
    "‖∇C(θ₀)‖∞ is about 0, as θ₀ was trained on the retained data: less than "
    f"{SMALL_PEAK:g} times that of the same loss on unseen data.",
    "Sect. 4.2, after Prop. 3; the bound is ours",
    flat_constraint,
)
