"""The claim on how many parameters agree, disagree, or cannot tell (Fig. 3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from expunge.bench._records import Record
from expunge.bench.claims._arms import CONSTRAINED
from expunge.bench.claims._base import Claim, Finding
from expunge.bench.claims._claim_runs import Runs
from expunge.bench.claims._paired_runs import settle_each
from expunge.bench.claims._statistics import Region

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


@dataclass(frozen=True)
class Quarters:
    """A quarter of the parameters disagrees, half is uncertain, a quarter agrees.

    f < ``low`` is to disagree, f > ``high`` to agree. With the published moments f stays within
    [0.249, 0.751]; 0.4 and 0.6 leave the outer three tenths of that range on either side to the
    likely, and are edges of the histogram's bins. The effect is, for each seed, the largest
    distance of the three shares from 25, 50 and 25 % at the last epoch; "roughly" is within
    ``margin``.
    """

    low: float = 0.4
    high: float = 0.6
    margin: float = 10.0
    addon: str = "focus"
    methods: tuple[str, ...] = CONSTRAINED

    def shares(self, record: Record) -> Array | None:
        """Per cent that disagree, are uncertain, agree, in the last histogram."""
        if not record.agreement:
            return None
        bins = np.array(record.agreement[max(record.agreement, key=int)], dtype=np.float64)
        if not bins.sum() > 0:
            return None
        middle = (np.arange(len(bins)) + 0.5) / len(bins)
        parts = [middle < self.low, (middle > self.low) & (middle < self.high), middle > self.high]
        return np.array([100 * bins[part].sum() / bins.sum() for part in parts])

    def __call__(self, claim: Claim, runs: Runs) -> Iterator[Finding]:
        def distance(record: Record) -> float | None:
            found = self.shares(record)
            return None if found is None else float(np.abs(found - [25.0, 50.0, 25.0]).max())

        def told(records: list[Record]) -> str:
            found = [s for r in records if (s := self.shares(r)) is not None]
            disagree, unsure, agree = np.mean(found, axis=0)
            return f"{disagree:.0f} % disagree, {unsure:.0f} % uncertain, {agree:.0f} % agree"

        for situation, arm in runs.each(self.methods, (self.addon,)):
            seeds = runs.at_main(situation, arm)
            group = runs.group(situation, arm)
            region = Region(high=self.margin)
            yield settle_each(claim, group, seeds, distance, region, "points off", told)


QUARTERS = Claim(
    "quarters",
    "Roughly a quarter of the parameters disagrees (f < 0.4), half is uncertain, a quarter agrees "
    f"(f > 0.6): within {Quarters.margin:g} points.",
    "Fig. 3 and Sect. 5.1; thresholds and margin are ours",
    Quarters(),
)
