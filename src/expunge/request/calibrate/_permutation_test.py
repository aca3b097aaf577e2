"""Can forgotten examples be told from val examples of their class? A test by exchanging them.

To a model that saw neither, an example of the forget set and one of val of the same class are
exchangeable. So the two are shuffled within each class, again and again, and every statistic is
computed as on the real division. The largest of them, each in units of its spread under the
shuffles, has an exact quantile whatever the statistics' dependence (Westfall and Young, 1993).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from expunge.evaluation.svm._landmarks import Array

Statistic = Callable[[NDArray[np.bool_], Array], Array]
"""Who is of the forget set [R, N] and what each weighs as one of val [N], to values [K, R]."""


@dataclass(frozen=True, eq=False)
class Division:
    """Examples of forget and val together, [N], with their classes.

    A val example of class c weighs w_c / n_c: the share of c in forget over its number in val. A
    forget example weighs 1 / n_f. Classes that val has no example of should be left out.
    """

    labels: NDArray[np.int64]
    forget: NDArray[np.bool_]

    @property
    def weights(self) -> Array:
        """What each example weighs as one of val; shuffles within classes leave it the same."""
        classes = int(self.labels.max()) + 1
        inside = np.bincount(self.labels[self.forget], minlength=classes)
        outside = np.bincount(self.labels[~self.forget], minlength=classes)
        result: Array = (inside / inside.sum() / np.maximum(outside, 1))[self.labels]
        return result

    def shuffles(self, count: int, seed: int) -> NDArray[np.bool_]:
        """``count`` divisions [R, N] with as many of forget in each class as there are."""
        random = np.random.default_rng(seed)
        members = np.empty((count, len(self.labels)), dtype=np.bool_)
        for label in np.unique(self.labels):
            own = np.flatnonzero(self.labels == label)
            rows = np.broadcast_to(self.forget[own], (count, len(own)))
            members[:, own] = random.permuted(rows, axis=1)
        return members


@dataclass(frozen=True)
class Exchanged:
    """One statistic: its value, its centre under exchange, and how far from it chance reaches.

    ``reach`` is that of all statistics at once: with probability ``level`` none of an ideal
    model's goes further.
    """

    value: float
    centre: float
    reach: float

    @property
    def limit(self) -> float:
        """The largest value that chance explains."""
        return self.centre + self.reach


def exchange(
    division: Division,
    statistics: Mapping[tuple[str, ...], Statistic],
    centres: Mapping[str, float],
    *,
    level: float = 0.95,
    shuffles: int = 400,
    seed: int = 0,
) -> tuple[dict[str, Exchanged], float]:
    """Every statistic with its reach, and the largest deviation as a multiple of its reach.

    At most 1: nothing tells forget from val. Statistics with a known centre count in both
    directions, the others (distances) upwards from their mean under exchange.
    """
    members = np.concatenate([division.forget[None], division.shuffles(shuffles, seed)])
    weights = division.weights
    size = max(1, 2_000_000 // len(weights))
    blocks = [members[start : start + size] for start in range(0, len(members), size)]
    values = np.concatenate(
        [np.hstack([part(block, weights) for block in blocks]) for part in statistics.values()]
    )
    names = [name for group in statistics for name in group]
    null = values[:, 1:]
    means, spread = null.mean(axis=1), null.std(axis=1)
    centre = np.array([centres.get(name, means[k]) for k, name in enumerate(names)])
    sided = np.array([name in centres for name in names])[:, None]
    off = values - centre[:, None]
    off = np.where(sided, np.abs(off), off) / np.where(spread > 1e-12, spread, np.inf)[:, None]
    largest = off.max(axis=0)
    quantile = float(np.quantile(largest[1:], level, method="higher"))
    found = {
        name: Exchanged(float(values[k, 0]), float(centre[k]), quantile * float(spread[k]))
        for k, name in enumerate(names)
    }
    return found, float(largest[0]) / quantile if quantile > 0.0 else 0.0


def mean_difference(scores: Array) -> Statistic:
    """The mean over forget minus the matched mean over val, [1, R]."""

    def statistic(members: NDArray[np.bool_], weights: Array) -> Array:
        inside = members.astype(np.float64)
        size = inside[0].sum()
        result: Array = inside @ (scores / size + weights * scores) - (weights * scores).sum()
        return result[None]

    return statistic


def auc_and_ks(scores: Array) -> Statistic:
    """P(forget scores above matched val) + ½ P(equal), and the distance of the two, [2, R].

    With F and V the distribution functions of forget and of matched val and G = F − V, the
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
