"""Means over seeds with Student's interval, and what an interval says about a claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from expunge.evaluation import student_reach

ClaimStatus = Literal["held", "not held", "inconclusive", "no data"]
STATUSES: tuple[ClaimStatus, ...] = ("held", "not held", "inconclusive", "no data")

MIN_SEEDS = 3
"""Fewer seeds than this never settle a claim."""
LEVEL = 0.95
"""The confidence level of intervals."""


@dataclass(frozen=True)
class Region:
    """The open interval in which an effect has to lie for the claim to hold.

    A strip of width ``grey`` beside it speaks neither for the claim nor against it.
    """

    low: float = -math.inf
    high: float = math.inf
    grey: float = 0.0


@dataclass(frozen=True)
class SeedMean:
    """A mean over ``n`` seeds with its interval; None where there are too few seeds for one."""

    value: float
    interval: tuple[float, float] | None
    n: int


def mean_over_seeds(values: Sequence[float], level: float = LEVEL) -> SeedMean:
    """The mean and, from 3 values, Student's interval: mean ± t·s/√n, n - 1 degrees of freedom.

    >>> low, high = mean_over_seeds([1.0, 2.0, 3.0]).interval
    >>> f"[{low:.3f}, {high:.3f}]"
    '[-0.484, 4.484]'
    """
    n, mean = len(values), float(np.mean(values))
    if n < MIN_SEEDS:
        return SeedMean(mean, None, n)
    reach = student_reach(values, level)
    return SeedMean(mean, (mean - reach, mean + reach), n)


def verdict(interval: tuple[float, float] | None, n: int, region: Region) -> ClaimStatus:
    """What an interval over ``n`` seeds says about the claim that the effect lies in ``region``.

    - *held*: at least 3 seeds, and the whole interval inside the region;
    - *not held*: at least 3 seeds, and the whole interval outside it, on one side;
    - *inconclusive*: otherwise.

    >>> verdict((-2.0, -1.0), 3, Region(high=0.0)), verdict((-2.0, -1.0), 2, Region(high=0.0))
    ('held', 'inconclusive')
    """
    if interval is None or n < MIN_SEEDS or any(math.isnan(end) for end in interval):
        return "inconclusive"
    low, high = interval
    if region.low < low and high < region.high:
        return "held"
    outside = high < region.low - region.grey or low > region.high + region.grey
    return "not held" if outside else "inconclusive"
