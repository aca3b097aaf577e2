"""A joint permutation test of whether forgotten and validation examples differ.

To a model that saw neither, an example of the forget set and a validation example of the same class
are exchangeable. So membership is shuffled within each class many times, and every statistic is
computed for each shuffle. The largest statistic, in units of its spread under the shuffles, has an
exact quantile however the statistics depend on each other (Westfall and Young, 1993).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from expunge.evaluation.svm._landmarks import Array

Statistic = Callable[[NDArray[np.bool_], Array], Array]
"""Maps forget membership [R, N] and the weights as val examples [N] to values [K, R]."""


@dataclass(frozen=True, eq=False)
class PooledExamples:
    """Forget and val examples in one array of length N, with their classes.

    A val example of class c has weight w_c / n_c: the fraction of c in forget divided by its count
    in val. A forget example has weight 1 / n_f. Classes absent from val should be left out.
    """

    labels: NDArray[np.int64]
    forget: NDArray[np.bool_]

    @property
    def weights(self) -> Array:
        """The weight of each example as a val example; shuffles within classes preserve it."""
        classes = int(self.labels.max()) + 1
        inside = np.bincount(self.labels[self.forget], minlength=classes)
        outside = np.bincount(self.labels[~self.forget], minlength=classes)
        result: Array = (inside / inside.sum() / np.maximum(outside, 1))[self.labels]
        return result

    def shuffles(self, count: int, seed: int) -> NDArray[np.bool_]:
        """``count`` pooleds [R, N] with as many of forget in each class as there are."""
        random = np.random.default_rng(seed)
        members = np.empty((count, len(self.labels)), dtype=np.bool_)
        for label in np.unique(self.labels):
            indices = np.flatnonzero(self.labels == label)
            rows = np.broadcast_to(self.forget[indices], (count, len(indices)))
            members[:, indices] = random.permuted(rows, axis=1)
        return members


@dataclass(frozen=True)
class PermutedStatistic:
    """One statistic: its value, its centre under permutation, and how far chance moves it.

    ``reach`` is joint over all statistics: for an ideal model, with probability ``level`` none of
    them lies further from its centre.
    """

    value: float
    centre: float
    reach: float

    @property
    def limit(self) -> float:
        """The largest value explained by chance."""
        return self.centre + self.reach

    def allowing(self, shift: PermutedStatistic) -> PermutedStatistic:
        """The same value, where a difference like that of ``shift`` is no matter of chance."""
        centre = self.centre + shift.value - shift.centre
        return PermutedStatistic(self.value, centre, math.hypot(self.reach, shift.reach))

    def deviation(self, two_sided: bool) -> float:
        """How far the value is from the centre, in units of the reach."""
        away = self.value - self.centre
        return (abs(away) if two_sided else away) / self.reach if self.reach > 0.0 else 0.0


def permutation_test(
    pooled: PooledExamples,
    statistics: Mapping[tuple[str, ...], Statistic],
    centres: Mapping[str, float],
    *,
    shift: Mapping[str, PermutedStatistic] | None = None,
    level: float = 0.95,
    shuffles: int = 400,
    seed: int = 0,
) -> tuple[dict[str, PermutedStatistic], float]:
    """Test all statistics jointly; return each with its reach, and the largest deviation / reach.

    If the second result is at most 1, nothing distinguishes forget from val. Statistics with a
    known centre are tested in both directions, the others (distances) upwards from their mean under
    permutation. ``shift`` is what val and others that were never seen differ by: forget may differ
    from val by as much, give or take the error of both.
    """
    # Every statistic for the real membership (row 0) and for each shuffle, in bounded blocks.
    members = np.concatenate([pooled.forget[None], pooled.shuffles(shuffles, seed)])
    weights = pooled.weights
    size = max(1, 2_000_000 // len(weights))
    blocks = [members[start : start + size] for start in range(0, len(members), size)]
    values = np.concatenate(
        [
            np.hstack([statistic(block, weights) for block in blocks])
            for statistic in statistics.values()
        ]
    )
    names = [name for group in statistics for name in group]
    # Deviations from the centre, in units of each statistic's spread under permutation.
    null = values[:, 1:]
    means, spread = null.mean(axis=1), null.std(axis=1)
    centre = np.array([centres.get(name, means[k]) for k, name in enumerate(names)])
    two_sided = np.array([name in centres for name in names])[:, None]
    deviations = values - centre[:, None]
    deviations = np.where(two_sided, np.abs(deviations), deviations)
    deviations /= np.where(spread > 1e-12, spread, np.inf)[:, None]
    # The joint limit: a quantile of the largest deviation over the shuffles.
    largest = deviations.max(axis=0)
    quantile = float(np.quantile(largest[1:], level, method="higher"))
    results = {
        name: PermutedStatistic(float(values[k, 0]), float(centre[k]), quantile * float(spread[k]))
        for k, name in enumerate(names)
    }
    if shift:
        results = {name: each.allowing(shift[name]) for name, each in results.items()}
        beyond = [each.deviation(name in centres) for name, each in results.items()]
        return results, max(beyond)
    return results, float(largest[0]) / quantile if quantile > 0.0 else 0.0


def mean_difference(scores: Array) -> Statistic:
    """The mean over forget minus the class-matched mean over val, [1, R]."""

    def statistic(members: NDArray[np.bool_], weights: Array) -> Array:
        inside = members.astype(np.float64)
        size = inside[0].sum()
        result: Array = inside @ (scores / size + weights * scores) - (weights * scores).sum()
        return result[None]

    return statistic


def auc_and_ks(scores: Array) -> Statistic:
    """AUC, P(forget > matched val) + ½ P(equal), and the Kolmogorov-Smirnov distance, [2, R].

    With F and V the distribution functions of forget and of class-matched val and G = F − V, the
    distance is max |G|. F telescopes: Σ f_u (F_u + F_{u-1})/2 = ½, so that the area under the
    curve, Σ f_u (V_u + V_{u-1})/2, is ½ − Σ f_u (G_u + G_{u-1})/2: one cumulative sum serves both.
    """
    order = np.argsort(scores, kind="stable")
    rising = scores[order]
    ends = np.flatnonzero(np.append(rising[1:] != rising[:-1], True))

    def statistic(members: NDArray[np.bool_], weights: Array) -> Array:
        inside = members[:, order] / members[0].sum()
        outside = weights[order]
        gap = np.where(members[:, order], inside, -outside)
        np.cumsum(gap, axis=1, out=gap)
        if len(ends) < len(order):  # equal scores step together
            gap = gap[:, ends]
            inside = np.diff(np.cumsum(inside, axis=1)[:, ends], axis=1, prepend=0.0)
        area = 0.5 - (inside * gap).sum(1) + 0.5 * (inside * np.diff(gap, prepend=0.0)).sum(1)
        return np.stack([area, np.abs(gap).max(1)])

    return statistic
