"""Differences between two arms, seed by seed: mean, interval, and what they say of a claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.bench.claims._base import Status

LEAST = 3
"""Fewer seeds than this never settle a claim."""
LEVEL = 0.95


@dataclass(frozen=True)
class Region:
    """The open interval in which an effect has to lie for the claim to hold.

    A strip of width ``grey`` beside it speaks neither for the claim nor against it.
    """

    low: float = -math.inf
    high: float = math.inf
    grey: float = 0.0


@dataclass(frozen=True)
class Estimate:
    """A mean over ``n`` seeds with its interval; None where there are too few seeds for one."""

    value: float
    interval: tuple[float, float] | None
    n: int

    def mapped(self, scale: Callable[[float], float]) -> Estimate:
        """On another scale; ``scale`` rises."""
        ends = self.interval and (scale(self.interval[0]), scale(self.interval[1]))
        return Estimate(scale(self.value), ends, self.n)


def estimate(values: Sequence[float], level: float = LEVEL, resamples: int = 0) -> Estimate:
    """The mean and, from 3 values, Student's interval: mean ± t·s/√n, n - 1 degrees of freedom.

    With ``resamples`` the interval is of the percentiles of as many bootstrapped means instead,
    which is too narrow for a handful of seeds.

    >>> low, high = estimate([1.0, 2.0, 3.0]).interval
    >>> f"[{low:.3f}, {high:.3f}]"
    '[-0.484, 4.484]'
    """
    n, mean = len(values), float(np.mean(values))
    if n < LEAST:
        return Estimate(mean, None, n)
    if resamples:
        drawn = np.random.default_rng(0).choice(values, size=(resamples, n))
        return Estimate(mean, percentiles(drawn.mean(axis=1).tolist(), level), n)
    from scipy.stats import t

    reach = float(t.ppf(0.5 + level / 2, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Estimate(mean, (mean - reach, mean + reach), n)


def percentiles(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """The middle ``level`` of some values."""
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)


def verdict(interval: tuple[float, float] | None, n: int, region: Region) -> Status:
    """What an interval over ``n`` seeds says of the claim that the effect lies in ``region``.

    - *held*: at least 3 seeds, and the whole interval inside the region;
    - *not held*: at least 3 seeds, and the whole interval outside it, on one side;
    - *inconclusive*: otherwise.

    >>> verdict((-2.0, -1.0), 3, Region(high=0.0)), verdict((-2.0, -1.0), 2, Region(high=0.0))
    ('held', 'inconclusive')
    """
    if interval is None or n < LEAST or any(math.isnan(end) for end in interval):
        return "inconclusive"
    low, high = interval
    if region.low < low and high < region.high:
        return "held"
    outside = high < region.low - region.grey or low > region.high + region.grey
    return "not held" if outside else "inconclusive"
