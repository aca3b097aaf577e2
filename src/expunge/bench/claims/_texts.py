"""Claims about language models: whether an add-on helps at equal forgetting.

Every evaluated epoch of every run is a point: how far it is from the ideal model's forgetting, by
the exact memorisation of the forgotten records or by the privacy leakage, and how much model
utility was lost. Two arms are compared at the distances that both reach, each by the least utility
that it lost on the way there. Each method is judged by itself, and all of them together: for every
seed the mean over methods and tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import Arm, Sweep, TaskRuns, select_arms
from expunge.bench._sweeps import StoppingPoint, frontier_at, pareto
from expunge.bench.claims._base import Claim, ClaimFinding, group_name
from expunge.bench.claims._statistics import Region, settle

LEVELS = 20
"""Distances at which two arms are compared."""


@dataclass(frozen=True)
class Distance:
    """How far a run is from the ideal model's forgetting: |metric|, in points."""

    metric: str
    label: str
    scale: float = 1.0


MEMORISATION = Distance("gap_exact_memorisation", "exact memorisation", scale=100.0)
LEAKAGE = Distance("privacy_leakage", "privacy leakage")


def forgetting_points(record: Record, distance: Distance = MEMORISATION) -> list[StoppingPoint]:
    """Distance from the ideal model's forgetting, and utility lost, in points, at every epoch.

    The fields of a point trade places here: ``lost`` is the distance, ``distance`` the utility.
    """
    start = record.value("model_utility", 0)
    points = []
    for row in record.evaluated:
        gap, utility = row.get(distance.metric), row.get("model_utility")
        if start is not None and gap is not None and utility is not None:
            points.append(StoppingPoint(distance.scale * abs(gap), 100.0 * (start - utility)))
    return points


def utility_gain(
    base: Sequence[Record], addon: Sequence[Record], distance: Distance = MEMORISATION
) -> float | None:
    """The utility that the add-on keeps and the base loses at equal forgetting, in points.

    The mean over distances from where the slower of the two ends up to where both start.
    """
    clouds = [
        [point for record in arm for point in forgetting_points(record, distance)]
        for arm in (base, addon)
    ]
    if not all(clouds):
        return None
    nearest = max(min(point.lost for point in cloud) for cloud in clouds)
    farthest = min(max(point.lost for point in cloud) for cloud in clouds)
    if farthest <= nearest:
        return None
    levels = np.linspace(nearest, farthest, LEVELS).tolist()
    least = [np.array(frontier_at(pareto(cloud), levels)) for cloud in clouds]
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


Gains = dict[int, float]
"""What an add-on gains over the method alone, by seed."""


@dataclass(frozen=True)
class KeepsUtility:
    """At equal forgetting, the add-on loses less utility than the method alone, seed by seed."""

    addon: str
    distance: Distance = MEMORISATION
    unit: str = "points"

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        return _findings(claim, tasks, self.addon, self.gains, self.unit)

    def gains(self, base: Sweep, addon: Sweep) -> Gains:
        """Points of utility that the add-on keeps and the base loses."""
        first, second = _by_seed(base), _by_seed(addon)
        gains = {
            seed: utility_gain(first[seed], second[seed], self.distance)
            for seed in sorted(set(first) & set(second))
        }
        return {seed: gain for seed, gain in gains.items() if gain is not None}


@dataclass(frozen=True)
class ReachesQuality:
    """The add-on's best forget quality, at ``most`` points of utility lost, is the higher one."""

    addon: str
    most: float = 10.0
    unit: str = "log10 p"

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        return _findings(claim, tasks, self.addon, self.gains, self.unit)

    def gains(self, base: Sweep, addon: Sweep) -> Gains:
        """Powers of ten by which the add-on's best p-value is the higher one."""
        first, second = self._best(base), self._best(addon)
        return {seed: second[seed] - first[seed] for seed in sorted(set(first) & set(second))}

    def _best(self, sweep: Sweep) -> Gains:
        found: Gains = {}
        for seed, records in _by_seed(sweep).items():
            values = [q for r in records if (q := best_quality(r, self.most)) is not None]
            found |= {seed: max(values)} if values else {}
        return found


def _findings(
    claim: Claim,
    tasks: Sequence[TaskRuns],
    addon: str,
    gains: Callable[[Sweep, Sweep], Gains],
    unit: str,
) -> Iterator[ClaimFinding]:
    """A finding for each method and task, after one for all of them together."""
    each: list[tuple[str, Gains, int]] = []
    for runs, arm in _arms(tasks, addon):
        base, with_it = runs.sweep(Arm(arm.method)), runs.sweep(arm)
        failed = sum(bool(r.diverged) for seeds in with_it.values() for r in seeds.values())
        each.append((group_name(runs, arm), gains(base, with_it), failed))
    if len(each) > 1:
        yield _together(claim, [(found, failed) for _, found, failed in each], unit)
    for group, found, failed in each:
        yield _settled(claim, group, found, failed, unit)


def _together(claim: Claim, each: Sequence[tuple[Gains, int]], unit: str) -> ClaimFinding:
    """For every seed the mean over the arms that all seeds have."""
    seeds = {seed for found, _ in each for seed in found}
    whole = [found for found, _ in each if seeds and set(found) == seeds]
    means = {s: float(np.mean([found[s] for found in whole])) for s in sorted(seeds) if whole}
    better = sum(np.mean([*found.values()]) > 0.0 for found in whole)
    detail = f"better with it in {better} of {len(whole)} by the mean over seeds"
    left_out = len(each) - len(whole)
    detail += f"; not compared at every seed, left out: {left_out}" if left_out else ""
    group = f"all {len(whole)} pairs of method and task"
    return _settled(claim, group, means, sum(failed for _, failed in each), unit, detail)


def _settled(
    claim: Claim, group: str, found: Gains, failed: int, unit: str, detail: str = ""
) -> ClaimFinding:
    diverged = f"add-on runs diverged: {failed}" if failed else ""
    return settle(
        claim, group, [*found.values()], Region(low=0.0), unit, detail, diverged, failures=failed
    )


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


def _utility(name: str, label: str, addon: str, distance: Distance) -> Claim:
    return Claim(
        name,
        f"At equal {distance.label}, {label} keeps more of a language model's utility than the "
        "method alone.",
        "Ours; the paper has images alone",
        KeepsUtility(addon, distance),
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


FOCUS_UTILITY = _utility("text-focus-utility", "FOCUS", "focus", MEMORISATION)
PROB_UTILITY = _utility("text-prob-utility", "PROB", "prob", MEMORISATION)
FOCUS_PRIVACY = _utility("text-focus-privacy", "FOCUS", "focus", LEAKAGE)
PROB_PRIVACY = _utility("text-prob-privacy", "PROB", "prob", LEAKAGE)
FOCUS_QUALITY = _quality("text-focus-quality", "FOCUS", "focus")
PROB_QUALITY = _quality("text-prob-quality", "PROB", "prob")
