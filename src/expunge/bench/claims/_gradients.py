"""Claims on the two gradients: their product is near zero and falls, and how many signs agree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import CONSTRAINED_METHODS, TaskRuns
from expunge.bench.claims._base import Claim, ClaimFinding, each_arm, group_name
from expunge.bench.claims._statistics import Array, Region, settle_single

TINY = 1e-300
UNCERTAIN = (0.4, 0.6)
"""A parameter with f below disagrees, one above agrees.

With the published moments f stays within [0.249, 0.751]; these thresholds leave the outer three
tenths of that range on either side to the likely, and are edges of the histogram's bins.
"""


def magnitudes(record: Record, name: str) -> Array:
    """|quantity| of every step that has it."""
    values = [abs(value) for value in record.steps.get(name, []) if value is not None]
    return np.array(values, dtype=np.float64)


def zone_sums(bins: Array) -> Array:
    """The parts of a histogram of f that disagree, are uncertain and agree, [3]."""
    low, high = (round(edge * len(bins)) for edge in UNCERTAIN)
    return np.array([part.sum() for part in (bins[:low], bins[low:high], bins[high:])])


@dataclass(frozen=True)
class Orthogonal:
    """The median over the steps of |cos(ĝ_U, ĝ_C)| is below ``most``, one median per seed.

    The detail gives the share of steps below it, and the mean cosine with its sign: Proposition 6
    supposes a mean product of zero.
    """

    most: float = 0.1
    addon: str = "focus"
    methods: tuple[str, ...] = CONSTRAINED_METHODS

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        def describe(records: list[Record]) -> str:
            steps = np.concatenate([magnitudes(record, "cosine") for record in records])
            signed = [v for record in records for v in record.steps["cosine"] if v is not None]
            share = 100 * np.mean(steps < self.most)
            return f"{share:.0f} % of steps below {self.most:g}, mean cosine {np.mean(signed):+.3f}"

        def median(record: Record) -> float | None:
            steps = magnitudes(record, "cosine")
            return float(np.median(steps)) if len(steps) else None

        for runs, arm in each_arm(tasks, self.methods, (self.addon,)):
            group, region = group_name(runs, arm), Region(high=self.most)
            seeds = runs.at_main(arm)
            yield settle_single(claim, group, seeds, median, region, "|cos|", describe)


@dataclass(frozen=True)
class Shrinks:
    """|⟨ĝ_U, ĝ_C⟩| falls: the median of the last ``part`` of the steps against the first's.

    The effect is in decades; the paper's products fall by five, from 1e-5 to 1e-10.
    """

    part: float = 0.25
    addon: str = "focus"
    methods: tuple[str, ...] = CONSTRAINED_METHODS

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        def ends(record: Record) -> tuple[float, float] | None:
            steps = magnitudes(record, "product")
            k = int(self.part * len(steps))
            if k < 1:
                return None
            return float(np.median(steps[:k])), float(np.median(steps[-k:]))

        def decades(record: Record) -> float | None:
            medians = ends(record)
            return medians and float(np.log10(max(medians[1], TINY) / max(medians[0], TINY)))

        def describe(records: list[Record]) -> str:
            early, late = np.median([ends(record) for record in records], axis=0)
            return f"|product| {early:.1e} → {late:.1e}"

        for runs, arm in each_arm(tasks, self.methods, (self.addon,)):
            group, region = group_name(runs, arm), Region(high=0.0)
            seeds = runs.at_main(arm)
            yield settle_single(claim, group, seeds, decades, region, "decades", describe)


@dataclass(frozen=True)
class Quarters:
    """A quarter of the parameters disagrees, half is uncertain, a quarter agrees.

    The effect is, for each seed, the largest distance of the three shares from 25, 50 and 25 % at
    the last epoch; "roughly" is within ``margin``.
    """

    margin: float = 10.0
    addon: str = "focus"
    methods: tuple[str, ...] = CONSTRAINED_METHODS

    @staticmethod
    def shares(record: Record) -> Array | None:
        """Per cent that disagree, are uncertain, agree, in the last histogram."""
        if not record.agreement:
            return None
        bins = np.array(record.agreement[max(record.agreement, key=int)], dtype=np.float64)
        return 100 * zone_sums(bins) / bins.sum() if bins.sum() > 0 else None

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        def distance(record: Record) -> float | None:
            shares = self.shares(record)
            return None if shares is None else float(np.abs(shares - [25.0, 50.0, 25.0]).max())

        def describe(records: list[Record]) -> str:
            shares = [s for record in records if (s := self.shares(record)) is not None]
            disagree, uncertain, agree = np.mean(shares, axis=0)
            return f"{disagree:.0f} % disagree, {uncertain:.0f} % uncertain, {agree:.0f} % agree"

        for runs, arm in each_arm(tasks, self.methods, (self.addon,)):
            group, region = group_name(runs, arm), Region(high=self.margin)
            seeds = runs.at_main(arm)
            yield settle_single(claim, group, seeds, distance, region, "points off", describe)


PRODUCT_ZERO = Claim(
    "product-zero",
    f"⟨g_U, g_C⟩ concentrates at zero: the median |cosine| of steps is below {Orthogonal.most}.",
    "Sect. 5.3, the hypothesis of Prop. 6; the bound is ours",
    Orthogonal(),
)
PRODUCT_SHRINKS = Claim(
    "product-shrinks",
    "|⟨g_U, g_C⟩| shrinks over the run: last quarter of the steps against the first.",
    "Sect. 5.3: from 1e-5 to 1e-10",
    Shrinks(),
)
QUARTERS = Claim(
    "quarters",
    "Roughly a quarter of the parameters disagrees (f < 0.4), half is uncertain, a quarter agrees "
    f"(f > 0.6): within {Quarters.margin:g} points.",
    "Fig. 3 and Sect. 5.1; thresholds and margin are ours",
    Quarters(),
)
