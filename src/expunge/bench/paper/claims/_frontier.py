"""The claims that an add-on does more than a larger learning rate: frontiers over TA lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.bench._results import PAPER_METHODS, BenchRun
from expunge.bench._tasks import Sweep, TaskResults
from expunge.bench.paper.claims import _sweeps as sweeps
from expunge.bench.paper.claims._base import (
    Claim,
    ClaimFinding,
    Region,
    count_diverged,
    each_variant,
    mean_over_seeds,
    settle,
    verdict,
)
from expunge.methods import METHODS


@dataclass(frozen=True)
class Dominates:
    """An add-on's frontier over TA lost lies below the base's, with the same sweep for both.

    The effect is the mean difference of the frontiers of a seed where 0 to 2 points of TA are lost,
    as far as both reach. A larger learning rate moves along the same curve and ends at zero. Held
    is an interval below minus the margin of the ``remainder``, not held one above it.
    ``optional_methods`` count where they were tried.
    """

    addons: tuple[str, ...] = sweeps.SWEPT_ADDONS
    remainder: sweeps.Remainder = sweeps.RUA
    methods: tuple[str, ...] = ()
    optional_methods: tuple[str, ...] = sweeps.SWEPT_METHODS

    def __call__(self, claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
        methods = (*self.methods, *self.optional_methods)
        for runs, variant, group in each_variant(tasks, methods, self.addons):
            base, addon = runs.sweep(BenchRun(variant.method)), runs.sweep(variant)
            if variant.method in self.optional_methods and not addon:
                continue
            labels = (BenchRun(variant.method).label, variant.label)
            yield self.finding(claim, group, base, addon, labels)

    def finding(
        self, claim: Claim, group: str, base: Sweep, other: Sweep, labels: tuple[str, str]
    ) -> ClaimFinding:
        """What lies between the frontiers of two sweeps with these labels, in numbers and words."""
        frontiers = sweeps.compare_frontiers(base, other, remainder=self.remainder)
        if not frontiers.means:
            why = self._why_none(frontiers, sum(setting in other for setting in base))
            return ClaimFinding(claim, group, "no data", detail=why)
        compared = sweeps.balanced((base, other), sweeps.MIN_SETTINGS)
        base_diverged, other_diverged = (count_diverged(each.values()) for each in compared)
        mean, margin = mean_over_seeds(frontiers.means), self.remainder.margin
        alike = verdict(mean.interval, mean.n, Region(-margin, margin)) == "held"
        counted = {
            "runs without a counterpart, left out": frontiers.left_out,
            "seeds with fewer settings, left out": frontiers.unfinished,
            f"{labels[0]} runs diverged": base_diverged,
            f"{labels[1]} runs diverged": other_diverged,
        }
        return settle(
            claim,
            group,
            frontiers.means,
            Region(high=-margin, grey=2 * margin),
            "points",
            f"the frontiers coincide within {margin:g} points" if alike else "",
            _least_in_words(frontiers, labels, self.remainder.label),
            f"{frontiers.settings} settings",
            *(f"{what}: {count}" for what, count in counted.items() if count),
            failures=other_diverged,
        )

    def _why_none(self, frontiers: sweeps.Frontiers, most: int) -> str:
        if most < sweeps.MIN_SETTINGS:
            return f"a sweep has at least {sweeps.MIN_SETTINGS} settings, here {most}"
        if not frontiers.settings:
            return f"no seed has {sweeps.MIN_SETTINGS} settings yet"
        return f"{self.remainder.label} was not measured"


def _least_in_words(frontiers: sweeps.Frontiers, labels: tuple[str, str], metric: str) -> str:
    """``least |rUA| within reach of both: SRL 1.30, SRL-FOCUS 0.41``: lower need not be low."""
    last = frontiers.ta_lost[-1:]
    base, other = (
        np.mean([sweeps.frontier_at(front, last)[0] for front in fronts.values()])
        for fronts in (frontiers.base, frontiers.other)
    )
    least = f"{labels[0]} {base:.2f}, {labels[1]} {other:.2f}"
    return f"least {metric} within reach of both: {least}"


def dominated(claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
    """NGPlus is dominated: the frontier of SRL, or that of SCRUB, lies below its own."""
    for runs in tasks:
        base = runs.sweep(BenchRun("neg-grad-plus"))
        for method in ("random-label", "scrub"):
            rival, label = runs.sweep(BenchRun(method)), METHODS.label(method)
            group = f"{runs.name} {label} and NGPlus"
            found = Dominates().finding(claim, group, base, rival, ("NGPlus", label))
            if found.status != "no data":
                yield found


_SWEEP = "over the settings of lr, alpha and epochs that both were run with"
CLOCK = Claim(
    "clock",
    f"FOCUS does more than a larger learning rate: {_SWEEP} its frontier of |rUA| "
    f"over TA lost lies below the base's, by more than {sweeps.RUA.margin} points on average.",
    "Ours; cf. Prop. 7, case 2",
    Dominates(("focus",), methods=PAPER_METHODS, optional_methods=("match-unseen",)),
)
CLOCK_MASKS = Claim(
    "clock-masks",
    f"AND and PROB do more than a larger learning rate: {_SWEEP} their frontier of |rUA| "
    f"over TA lost lies below the base's, by more than {sweeps.RUA.margin} points on average.",
    "Ours",
    Dominates(("and", "prob")),
)
CLOCK_RMIA = Claim(
    "clock-rmia",
    f"An add-on leaves less for RMIA to find at the same loss of TA: {_SWEEP} its frontier of "
    f"|AUC - 0.5| lies below the base's, by more than {sweeps.RMIA_AUC.margin / 100:g} on average "
    "(points are hundredths).",
    "Ours",
    Dominates(remainder=sweeps.RMIA_AUC),
)
CLOCK_UNSEEN = Claim(
    "clock-unseen",
    "An add-on brings accuracies on forgotten and on unseen images nearer to each other at the "
    f"same loss of TA: {_SWEEP} its frontier of |UA - TA| lies below the base's, by more than "
    f"{sweeps.UNSEEN.margin} points on average.",
    "Ours",
    Dominates(remainder=sweeps.UNSEEN),
)
NGPLUS_DOMINATED = Claim(
    "ngplus-dominated",
    f"NGPlus is dominated by SRL or SCRUB: {_SWEEP} a frontier of |rUA| over TA lost lies below "
    f"that of NGPlus, by more than {sweeps.RUA.margin} points on average.",
    "Sect. 7; the frontiers are ours",
    dominated,
)
