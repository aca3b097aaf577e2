"""Claims on the scalar product of the two gradients: near zero, and falling."""

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
TINY = 1e-300


def column(record: Record, name: str) -> Array:
    """|quantity| of every step that has it."""
    found = [abs(v) for v in record.steps.get(name, []) if v is not None]
    return np.array(found, dtype=np.float64)


@dataclass(frozen=True)
class Orthogonal:
    """The median over the steps of |cos(ĝ_U, ĝ_C)| is below ``most``, one median a seed.

    The detail gives the share of steps below it, and the mean cosine with its sign: Proposition 6
    supposes a mean product of zero.
    """

    most: float = 0.1
    addon: str = "focus"
    methods: tuple[str, ...] = CONSTRAINED

    def __call__(self, claim: Claim, runs: Runs) -> Iterator[Finding]:
        def told(records: list[Record]) -> str:
            steps = np.concatenate([column(r, "cosine") for r in records])
            signed = [v for r in records for v in r.steps["cosine"] if v is not None]
            share = 100 * np.mean(steps < self.most)
            return f"{share:.0f} % of steps below {self.most:g}, mean cosine {np.mean(signed):+.3f}"

        def median(record: Record) -> float | None:
            steps = column(record, "cosine")
            return float(np.median(steps)) if len(steps) else None

        for situation, arm in runs.each(self.methods, (self.addon,)):
            seeds = runs.at_main(situation, arm)
            group = runs.group(situation, arm)
            yield settle_each(claim, group, seeds, median, Region(high=self.most), "|cos|", told)


@dataclass(frozen=True)
class Shrinks:
    """|⟨ĝ_U, ĝ_C⟩| falls: the median of the last ``part`` of the steps against the first's.

    The effect is in decades; the paper's products fall by five, from 1e-5 to 1e-10.
    """

    part: float = 0.25
    addon: str = "focus"
    methods: tuple[str, ...] = CONSTRAINED

    def __call__(self, claim: Claim, runs: Runs) -> Iterator[Finding]:
        def ends(record: Record) -> tuple[float, float] | None:
            steps = column(record, "product")
            k = int(self.part * len(steps))
            if k < 1:
                return None
            return float(np.median(steps[:k])), float(np.median(steps[-k:]))

        def decades(record: Record) -> float | None:
            found = ends(record)
            return found and float(np.log10(max(found[1], TINY) / max(found[0], TINY)))

        def told(records: list[Record]) -> str:
            early, late = np.median([ends(r) for r in records], axis=0)
            return f"|product| {early:.1e} → {late:.1e}"

        for situation, arm in runs.each(self.methods, (self.addon,)):
            seeds = runs.at_main(situation, arm)
            group = runs.group(situation, arm)
            yield settle_each(claim, group, seeds, decades, Region(high=0.0), "decades", told)


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
