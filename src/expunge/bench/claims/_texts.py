"""Claims about language models: whether an add-on helps at equal forgetting.

Every evaluated epoch of every run is a point: how far the exact memorisation of the forgotten
records is from the ideal model's, and how much model utility was lost. Two arms are compared at the
distances that both reach, each by the least utility that it lost on the way there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import Arm, Sweep, TaskRuns, select_arms
from expunge.bench.claims._base import Claim, ClaimFinding, group_name
from expunge.bench.claims._frontier import StoppingPoint, lowest, pareto
from expunge.bench.claims._statistics import Region, settle

LEVELS = 20
"""Distances at which two arms are compared."""


def forgetting_points(record: Record) -> list[StoppingPoint]:
    """Distance from the ideal's memorisation, and utility lost, in points, at every epoch.

    The fields of a point trade places here: ``lost`` is the distance, ``distance`` the utility.
    """
    start = record.value("model_utility", 0)
    points = []
    for row in record.evaluated:
        gap, utility = row.get("gap_exact_memorisation"), row.get("model_utility")
        if start is not None and gap is not None and utility is not None:
            points.append(StoppingPoint(100.0 * abs(gap), 100.0 * (start - utility)))
    return points


def utility_gain(base: Sequence[Record], addon: Sequence[Record]) -> float | None:
    """The utility that the add-on keeps and the base loses at equal forgetting, in points.

    The mean over distances from where the slower of the two ends up to where both start.
    """
    clouds = [[p for record in arm for p in forgetting_points(record)] for arm in (base, addon)]
    if not all(clouds):
        return None
    nearest = max(min(point.lost for point in cloud) for cloud in clouds)
    farthest = min(max(point.lost for point in cloud) for cloud in clouds)
    if farthest <= nearest:
        return None
    levels = np.linspace(nearest, farthest, LEVELS).tolist()
    least = [np.array(lowest(pareto(cloud), levels)) for cloud in clouds]
    return float(np.nanmean(least[0] - least[1]))


def best_quality(record: Record, most: float) -> float | None:
    """log10 of the best forget quality at a cost of at most ``most`` points of utility."""
    start = record.value("model_utility", 0)
    values = [
        row["forget_quality"]
        for row in record.evaluated
        if row.get("forget_quality") is not None and row.get("model_utility") is not None
        if start is not None and 100.0 * (start - row["model_utility"]) <= most
    ]
    return math.log10(max(max(values), 1e-300)) if values else None


@dataclass(frozen=True)
class KeepsUtility:
    """At equal forgetting, the add-on loses less utility than the method alone, seed by seed."""

    addon: str

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        for runs, arm in _arms(tasks, self.addon):
            base, addon = _by_seed(runs.sweep(Arm(arm.method))), _by_seed(runs.sweep(arm))
            gains = [
                utility_gain(base[seed], addon[seed]) for seed in sorted(set(base) & set(addon))
            ]
            values = [gain for gain in gains if gain is not None]
            failed = [r for records in addon.values() for r in records if r.diverged]
            yield settle(
                claim,
                group_name(runs, arm),
                values,
                Region(low=0.0),
                "points",
                f"add-on runs diverged: {len(failed)}" if failed else "",
                failures=len(failed),
            )


@dataclass(frozen=True)
class ReachesQuality:
    """The add-on's best forget quality, at ``most`` points of utility lost, is the higher one."""

    addon: str
    most: float = 10.0

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        for runs, arm in _arms(tasks, self.addon):
            base, addon = (self._best(runs.sweep(one)) for one in (Arm(arm.method), arm))
            values = [addon[seed] - base[seed] for seed in sorted(set(base) & set(addon))]
            yield settle(claim, group_name(runs, arm), values, Region(low=0.0), "log10 p")

    def _best(self, sweep: Sweep) -> dict[int, float]:
        found: dict[int, float] = {}
        for seed, records in _by_seed(sweep).items():
            values = [q for r in records if (q := best_quality(r, self.most)) is not None]
            found |= {seed: max(values)} if values else {}
        return found


def _arms(tasks: Sequence[TaskRuns], addon: str) -> Iterator[tuple[TaskRuns, Arm]]:
    """Every task with every method that was run both alone and with the add-on."""
    for runs in tasks:
        for method in dict.fromkeys(arm.method for arm in runs.arms):
            if Arm(method) in runs.arms:
                yield from ((runs, arm) for arm in select_arms(runs.arms, method, (addon,)))


def _by_seed(sweep: Sweep) -> dict[int, list[Record]]:
    by_seed: dict[int, list[Record]] = {}
    for seeds in sweep.values():
        for seed, record in seeds.items():
            by_seed.setdefault(seed, []).append(record)
    return by_seed


def _utility(name: str, label: str, addon: str) -> Claim:
    return Claim(
        name,
        f"At equal forgetting, {label} keeps more of a language model's utility than the method "
        "alone.",
        "Ours; the paper has images alone",
        KeepsUtility(addon),
        texts=True,
    )


def _quality(name: str, label: str, addon: str) -> Claim:
    return Claim(
        name,
        f"At a cost of at most 10 points of utility, {label} reaches a better forget quality than "
        "the method alone.",
        "Ours; the paper has images alone",
        ReachesQuality(addon),
        texts=True,
    )


FOCUS_UTILITY = _utility("text-focus-utility", "FOCUS", "focus")
PROB_UTILITY = _utility("text-prob-utility", "PROB", "prob")
FOCUS_QUALITY = _quality("text-focus-quality", "FOCUS", "focus")
PROB_QUALITY = _quality("text-prob-quality", "PROB", "prob")
