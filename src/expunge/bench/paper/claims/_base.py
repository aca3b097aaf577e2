"""A claim: a sentence of the paper, where it stands, and the rule that tests it on results.

A rule measures something of each seed; the mean over seeds with its interval settles the claim.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from expunge.bench._results import BenchResult, BenchRun
from expunge.bench._tasks import ResultsBySeed, TaskResults, select_variants
from expunge.evaluation import student_reach

# Means over seeds, and what their intervals say about a claim.

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


# Claims and what is found of them.


@dataclass(frozen=True)
class Claim:
    """What is claimed, in words; ``source`` is the section or table, ``rule`` the test.

    A rule gives a finding for each group of runs that the claim speaks of. ``bound``: it is an
    upper bound on cost, which a faster machine or program meets; these are counted apart.
    """

    name: str
    statement: str
    source: str
    rule: Callable[[Claim, Sequence[TaskResults]], Iterable[ClaimFinding]]
    bound: bool = False

    def judge(self, tasks: Sequence[TaskResults]) -> list[ClaimFinding]:
        """Its findings; a single one of "no data" where there is nothing to test it on."""
        return list(self.rule(self, tasks)) or [ClaimFinding(self, "", "no data")]


@dataclass(frozen=True)
class ClaimFinding:
    """What the results say about a claim in one ``group`` of runs: a task and a variant.

    ``effect`` is the mean over ``n`` seeds in ``unit``, with its 95 % interval; ``as_claimed`` says
    whether the mean by itself is what the claim says. ``detail`` is what else a reader wants to
    know, such as runs that diverged.
    """

    claim: Claim
    group: str
    status: ClaimStatus
    effect: float | None = None
    interval: tuple[float, float] | None = None
    n: int = 0
    unit: str = ""
    detail: str = ""
    as_claimed: bool = False


def each_variant(
    tasks: Iterable[TaskResults], methods: Sequence[str], addons: Sequence[str]
) -> Iterator[tuple[TaskResults, BenchRun, str]]:
    """Every task with every variant of these methods and add-ons, run or not; and their names."""
    for runs in tasks:
        for method in methods:
            for addon in addons:
                found = select_variants(runs.variants, method, (addon,))
                for variant in found or [BenchRun(method, addon)]:
                    yield runs, variant, f"{runs.name} {variant.label}"


@dataclass(frozen=True)
class Pairs:
    """Runs of two variants with the same seed; the seeds where one diverged are kept apart."""

    both: dict[int, tuple[BenchResult, BenchResult]] = field(default_factory=dict)
    base_diverged: tuple[int, ...] = ()
    other_diverged: tuple[int, ...] = ()
    names: tuple[str, str] = ("base", "add-on")

    @classmethod
    def of(cls, base: ResultsBySeed, other: ResultsBySeed, names: tuple[str, str] = names) -> Pairs:
        """The pairs of the seeds that both variants have; ``names`` are what remarks call them."""
        seeds = sorted(set(base) & set(other))
        return cls(
            {s: (base[s], other[s]) for s in seeds if not (base[s].diverged or other[s].diverged)},
            tuple(s for s in seeds if base[s].diverged),
            tuple(s for s in seeds if other[s].diverged),
            names,
        )

    @classmethod
    def with_addon(cls, runs: TaskResults, variant: BenchRun) -> Pairs:
        """The method alone and the variant, at the main hyperparameters."""
        return cls.of(runs.at_main(BenchRun(variant.method)), runs.at_main(variant))

    def values(self, measure: Callable[[BenchResult, BenchResult], float | None]) -> list[float]:
        """``measure(base, other)`` of every pair that has it."""
        measured = (measure(base, other) for base, other in self.both.values())
        return [value for value in measured if value is not None]

    @property
    def remark(self) -> str:
        """The seeds that diverged, in words."""
        pairs = zip((self.base_diverged, self.other_diverged), self.names, strict=True)
        return _joined([diverged_in_words(seeds, name) for seeds, name in pairs])


def diverged_in_words(seeds: Sequence[int], name: str = "") -> str:
    """``AND diverged with seed 0, 2``; empty without seeds."""
    return f"{name} diverged with seed {', '.join(map(str, seeds))}".lstrip() if seeds else ""


def count_diverged(sweep: Iterable[ResultsBySeed]) -> int:
    """The number of runs of a sweep that diverged."""
    return sum(bool(result.diverged) for seeds in sweep for result in seeds.values())


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
    notes = list(details)
    if isinstance(values, SeedMean):
        mean = values
    else:
        mean = mean_over_seeds(values)
        if len(values) >= MIN_SEEDS and max(values) - min(values) < 1e-9:
            notes.append("all seeds alike: the interval says little")
    status = verdict(mean.interval, mean.n, region)
    if failures and status == "held":
        status = "inconclusive"

    # The same in the unit that readers see.
    ends = mean.interval and (scale(mean.interval[0]), scale(mean.interval[1]))
    effect, detail = scale(mean.value), _joined(notes)
    as_claimed = region.low < mean.value < region.high
    return ClaimFinding(claim, group, status, effect, ends, mean.n, unit, detail, as_claimed)


@dataclass(frozen=True)
class OfEachRun:
    """A rule on what each run has by itself; ``describe`` puts the measured runs into words."""

    measure: Callable[[BenchResult], float | None]
    describe: Callable[[list[BenchResult]], str]
    region: Region
    unit: str
    methods: tuple[str, ...]
    addon: str = "none"

    def __call__(self, claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
        for runs, variant, group in each_variant(tasks, self.methods, (self.addon,)):
            seeds = runs.at_main(variant)
            found = {s: value for s, r in seeds.items() if (value := self.measure(r)) is not None}
            lost = [s for s, result in seeds.items() if result.diverged and s not in found]
            words = self.describe([seeds[s] for s in found]) if found else ""
            values = [*found.values()]
            yield settle(
                claim, group, values, self.region, self.unit, words, diverged_in_words(lost),
                failures=len(lost),
            )  # fmt: skip


def _joined(details: Sequence[str]) -> str:
    return "; ".join(detail for detail in details if detail)
