"""Estimates with intervals: how well scores separate two kinds of examples, shares and means.

What a :class:`Sample` says is computed from counts: how many positives and negatives have each
distinct score. A bootstrap replicate draws as many positives and negatives as there were, with
replacement, each from its own kind (stratified); in counts, all replicates are computed at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from expunge._arrays import Array
from expunge._errors import InvalidInput

Counts = NDArray[np.int64]
Statistic = Callable[[Counts, Counts], Array]
"""Counts of positives and negatives [R, U] by rising score, to one value per row, [R]."""


class Estimate(NamedTuple):
    """A value and its interval; all NaN where it is not defined."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"


UNDEFINED = Estimate(math.nan, math.nan, math.nan)


def wilson_interval(hits: int, count: int, level: float = 0.95) -> Estimate:
    """A proportion in percent with Wilson's score interval."""
    from scipy.stats import binomtest

    if count < 1 or not 0 <= hits <= count:
        raise InvalidInput(f"`hits` should be in 0..`count`. (got {hits} of {count})")
    interval = binomtest(hits, count).proportion_ci(level, method="wilson")
    return Estimate(100 * hits / count, 100 * float(interval.low), 100 * float(interval.high))


def student_reach(values: Array | Sequence[float], level: float = 0.95) -> float:
    """t·s/√n: how far Student's interval of a mean reaches to either side, from two values on."""
    from scipy.special import stdtrit

    quantile = float(stdtrit(len(values) - 1, 0.5 + level / 2))
    return quantile * float(np.std(values, ddof=1)) / math.sqrt(len(values))


def auc_of(positive: Array, negative: Array) -> float:
    """P(positive > negative) + ½ P(equal) of scores, in [0, 1]."""
    return Sample.of(positive, negative).value(auc)


def delong_interval(positive: Array, negative: Array, level: float = 0.95) -> Estimate:
    """The AUC of scores with DeLong's interval, in closed form, cut off at 0 and 1.

    Var = Var(V₁)/n + Var(V₀)/m, where V₁ is the share of negatives below each of n positives and
    V₀ the share of positives above each of m negatives, ties counted by half. An AUC of 0 or 1 has
    the interval of an n-out-of-n result, one example of a kind the interval [0, 1], as in
    :meth:`Sample.estimates`.

    Reference: E. DeLong, D. DeLong, D. Clarke-Pearson, *Comparing the Areas under Two or More
    Correlated Receiver Operating Characteristic Curves*, Biometrics 1988.
    """
    from scipy.special import ndtri
    from scipy.stats import rankdata

    n, m = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]))
    below = (ranks[:n] - rankdata(positive)) / m
    above = 1.0 - (ranks[n:] - rankdata(negative)) / n
    value = float(below.mean())
    if min(n, m) == 1:
        return Estimate(value, 0.0, 1.0)
    if value in (0.0, 1.0):
        return _all_or_nothing(value, min(n, m), (1.0 - level) / 2.0)
    spread = math.sqrt(below.var(ddof=1) / n + above.var(ddof=1) / m)
    reach = float(ndtri(0.5 + level / 2.0)) * spread
    return Estimate(value, max(value - reach, 0.0), min(value + reach, 1.0))


def _all_or_nothing(value: float, count: int, tail: float) -> Estimate:
    """Clopper and Pearson's interval of 0 or ``count`` out of ``count``."""
    bound = float(tail ** (1.0 / count))
    return Estimate(value, *((bound, 1.0) if value == 1.0 else (0.0, 1.0 - bound)))


def auc(positive: Counts, negative: Counts) -> Array:
    """P(positive > negative) + ½ P(equal): the area under the ROC curve, by midranks."""
    below = np.cumsum(negative, axis=1) - negative
    wins = (positive * (2 * below + negative)).sum(1)
    return np.asarray(wins / (2.0 * positive.sum(1) * negative.sum(1)))


def tpr_at(fpr: float) -> Statistic:
    """The largest share of positives above a threshold that at most ``fpr`` of negatives pass."""

    def statistic(positive: Counts, negative: Counts) -> Array:
        passed = np.cumsum(negative[:, ::-1], axis=1)
        detected = np.cumsum(positive[:, ::-1], axis=1)
        allowed = passed <= fpr * negative.sum(1, keepdims=True) + 1e-9
        best = np.where(allowed, detected, 0).max(1)
        return np.asarray(best / positive.sum(1))

    return statistic


def balanced_accuracy(above: NDArray[np.bool_]) -> Statistic:
    """½ (TPR + 1 − FPR) for the rule "score is among ``above``" (a flag per distinct score)."""

    def statistic(positive: Counts, negative: Counts) -> Array:
        detected = (positive * above).sum(1) / positive.sum(1)
        passed = (negative * above).sum(1) / negative.sum(1)
        return np.asarray(0.5 * (detected + 1.0 - passed))

    return statistic


@dataclass(frozen=True, eq=False)
class Sample:
    """Scores of positives and negatives, as counts by distinct score."""

    levels: Array
    positive: NDArray[np.intp]
    negative: NDArray[np.intp]

    @staticmethod
    def of(positive: Array, negative: Array) -> Sample:
        """A sample from scores [N] and [M]: not empty, finite or infinite but never NaN."""
        for name, scores in (("positive", positive), ("negative", negative)):
            if scores.ndim != 1 or len(scores) == 0 or bool(np.isnan(scores).any()):
                raise InvalidInput(
                    f"Scores of {name} examples should be a non-empty list without NaN. "
                    f"(got shape {scores.shape}, {int(np.isnan(scores).sum())} NaN)"
                )
        levels, where = np.unique(np.concatenate([positive, negative]), return_inverse=True)
        return Sample(levels, where[: len(positive)], where[len(positive) :])

    @property
    def constant(self) -> bool:
        """Whether all scores are the same."""
        return len(self.levels) == 1

    def value(self, statistic: Statistic) -> float:
        """The statistic on the sample itself."""
        return float(
            statistic(*(self._count(part[None]) for part in (self.positive, self.negative)))[0]
        )

    def estimates(
        self, statistics: list[Statistic], *, level: float, resamples: int, seed: int
    ) -> list[Estimate]:
        """Values and percentile intervals at ``level``, all from the same replicates.

        Where no replicate differs because the value is 0 or 1, the interval is that of an
        n-out-of-n result (Clopper and Pearson) for the smaller of the two groups; with a single
        example in a group it is [0, 1].
        """
        draws = self._draws(statistics, resamples, seed)
        tail = (1.0 - level) / 2.0
        smaller = min(len(self.positive), len(self.negative))
        estimates = []
        for statistic, values in zip(statistics, draws, strict=True):
            value = self.value(statistic)
            low, high = (float(q) for q in np.quantile(values, [tail, 1.0 - tail]))
            if smaller == 1:
                low, high = 0.0, 1.0
            elif low == high and value in (0.0, 1.0):
                _, low, high = _all_or_nothing(value, smaller, tail)
            estimates.append(Estimate(value, low, high))
        return estimates

    def _draws(self, statistics: list[Statistic], resamples: int, seed: int) -> Array:
        random = np.random.default_rng(seed)
        size = len(self.positive) + len(self.negative)
        chunk = max(1, min(resamples, 2_000_000 // size))
        columns = []
        for start in range(0, resamples, chunk):
            rows = min(chunk, resamples - start)
            counts = [
                self._count(part[random.integers(0, len(part), (rows, len(part)))])
                for part in (self.positive, self.negative)
            ]
            columns.append(np.stack([statistic(*counts) for statistic in statistics]))
        return np.concatenate(columns, axis=1)

    def _count(self, where: NDArray[np.intp]) -> Counts:
        rows, width = len(where), len(self.levels)
        flat = (where + width * np.arange(rows)[:, None]).reshape(-1)
        return np.bincount(flat, minlength=rows * width).reshape(rows, width)


def exposure_of(scores: Array, unseen: Array) -> Array:
    """The share of ``unseen`` below each score, ties counted half, [N]."""
    ranked = np.sort(unseen)
    below = np.searchsorted(ranked, scores, side="left")
    upto = np.searchsorted(ranked, scores, side="right")
    return (below + upto) / (2.0 * len(ranked))


def match_class_mix(labels: Tensor, like: Tensor, seed: int, *, most: float = 1.0) -> list[int]:
    """Indices into ``labels``: as many of each class as ``like`` has, or all there are.

    With ``most`` above 1, up to this multiple of every class, as far as the scarcest class allows.
    """
    random = np.random.default_rng(seed)
    pool = labels.cpu().numpy()
    classes, wanted = np.unique(like.cpu().numpy(), return_counts=True)
    available = np.array([(pool == label).sum() for label in classes])
    present = available > 0
    factor = 1.0
    if present.any():
        factor = max(1.0, min(most, float((available[present] / wanted[present]).min())))
    chosen: list[int] = []
    for label, count in zip(classes, wanted, strict=True):
        members = random.permutation(np.flatnonzero(pool == label))
        chosen += members[: int(factor * count + 1e-9)].tolist()
    return sorted(chosen)
