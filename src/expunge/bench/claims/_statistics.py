"""Differences between two arms, seed by seed: mean, interval, and what they say about a claim."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from expunge._arrays import Array as Array
from expunge.bench._records import Record
from expunge.bench._runs import Seeds
from expunge.bench.claims._base import Claim, ClaimFinding, ClaimStatus
from expunge.evaluation._statistics import student_reach

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

    def mapped(self, scale: Callable[[float], float]) -> SeedMean:
        """The same on another scale; ``scale`` is increasing."""
        ends = self.interval and (scale(self.interval[0]), scale(self.interval[1]))
        return SeedMean(scale(self.value), ends, self.n)


def mean_over_seeds(values: Sequence[float], level: float = LEVEL, resamples: int = 0) -> SeedMean:
    """The mean and, from 3 values, Student's interval: mean ± t·s/√n, n - 1 degrees of freedom.

    With ``resamples``, the interval is that of the percentiles of as many bootstrapped means, which
    is too narrow for a handful of seeds.

    >>> low, high = mean_over_seeds([1.0, 2.0, 3.0]).interval
    >>> f"[{low:.3f}, {high:.3f}]"
    '[-0.484, 4.484]'
    """
    n, mean = len(values), float(np.mean(values))
    if n < MIN_SEEDS:
        return SeedMean(mean, None, n)
    if resamples:
        drawn = np.random.default_rng(0).choice(values, size=(resamples, n))
        return SeedMean(mean, percentiles(drawn.mean(axis=1).tolist(), level), n)
    reach = student_reach(values, level)
    return SeedMean(mean, (mean - reach, mean + reach), n)


def percentiles(values: Sequence[float], level: float = LEVEL) -> tuple[float, float]:
    """The ends of the middle ``level`` of the values."""
    low, high = np.quantile(values, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)


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


@dataclass(frozen=True)
class Pairs:
    """Runs of two arms with the same seed; the seeds where one of them diverged are kept apart."""

    both: dict[int, tuple[Record, Record]] = field(default_factory=dict)
    base_diverged: tuple[int, ...] = ()
    arm_diverged: tuple[int, ...] = ()

    @classmethod
    def of(cls, base: Seeds, arm: Seeds) -> Pairs:
        """The pairs of the seeds that both arms have."""
        seeds = sorted(set(base) & set(arm))
        return cls(
            {s: (base[s], arm[s]) for s in seeds if not (base[s].diverged or arm[s].diverged)},
            tuple(s for s in seeds if base[s].diverged),
            tuple(s for s in seeds if arm[s].diverged),
        )

    def values(self, measure: Callable[[Record, Record], float | None]) -> list[float]:
        """``measure(base, arm)`` of every pair that has it."""
        measured = (measure(base, arm) for base, arm in self.both.values())
        return [value for value in measured if value is not None]

    @property
    def remark(self) -> str:
        """The seeds that diverged, in words."""
        arms = [("base", self.base_diverged), ("add-on", self.arm_diverged)]
        return _joined([diverged_in_words(seeds, name) for name, seeds in arms])


def diverged_in_words(seeds: Sequence[int], name: str = "") -> str:
    """``AND diverged with seed 0, 2``; empty without seeds."""
    return f"{name} diverged with seed {', '.join(map(str, seeds))}".lstrip() if seeds else ""


def settle(
    claim: Claim,
    group: str,
    values: Sequence[float] | SeedMean,
    region: Region,
    unit: str,
    *details: str,
    failures: int = 0,
    scale: Callable[[float], float] = float,
) -> ClaimFinding:
    """The finding that ``values``, one per seed, lead to; ``region`` is on their scale.

    ``failures`` counts runs that came to nothing, such as add-on runs that diverged: any of them
    keeps a claim from being held, and 3 or more with no values make it "not held".
    """
    # Nothing was measured: only failures can speak.
    if not isinstance(values, SeedMean) and not values:
        status: ClaimStatus = "inconclusive" if failures else "no data"
        status = "not held" if failures >= MIN_SEEDS else status
        return ClaimFinding(claim, group, status, detail=_joined(details))

    # The mean over seeds, and on which side of the region its interval lies.
    mean = values if isinstance(values, SeedMean) else mean_over_seeds(values)
    status = verdict(mean.interval, mean.n, region)
    if failures and status == "held":
        status = "inconclusive"

    # The same in the unit that readers see.
    notes = [*details, "all seeds alike: the interval says little" if _alike(values) else ""]
    shown = mean.mapped(scale)
    return ClaimFinding(
        claim, group, status, shown.value, shown.interval, mean.n, unit, _joined(notes)
    )


def settle_single(
    claim: Claim,
    group: str,
    seeds: Seeds,
    measure: Callable[[Record], float | None],
    region: Region,
    unit: str,
    describe: Callable[[list[Record]], str],
) -> ClaimFinding:
    """The finding on a quantity that each run has by itself, without a base to compare with."""
    diverged = [seed for seed, record in sorted(seeds.items()) if record.diverged]
    finished = [record for record in seeds.values() if not record.diverged]
    measured = [(record, value) for record in finished if (value := measure(record)) is not None]
    return settle(
        claim,
        group,
        [value for _, value in measured],
        region,
        unit,
        describe([record for record, _ in measured]) if measured else "",
        diverged_in_words(diverged),
        failures=len(diverged),
    )


def _alike(values: Sequence[float] | SeedMean) -> bool:
    if isinstance(values, SeedMean):
        return False
    return len(values) >= MIN_SEEDS and max(values) - min(values) < 1e-9


def _joined(details: Sequence[str]) -> str:
    return "; ".join(detail for detail in details if detail)
