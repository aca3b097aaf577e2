"""Claims about language models: whether an add-on helps at equal forgetting.

Every evaluated epoch of every run is a point: how far it is from the ideal model's forgetting, by
the exact memorisation of the forgotten records or by the privacy leakage, and how much model
utility was lost. Two variants are compared at the distances that both reach, each by the least
utility that it lost on the way there. Each method is judged by itself, and all of them together:
for every seed the mean over methods and tasks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from expunge.bench._results import Result
from expunge.bench._runs import Variant
from expunge.bench._statistics import Region
from expunge.bench._sweeps import Remainder, StoppingPoint, frontier_at, pareto
from expunge.bench._tasks import Sweep, TaskResults
from expunge.bench.paper.claims._base import (
    Claim,
    ClaimFinding,
    count_diverged,
    each_variant,
    settle,
)

LEVELS = 20
"""Distances at which two variants are compared."""


MEMORISATION = Remainder("gap_exact_memorisation", "exact memorisation", scale=100.0)
LEAKAGE = Remainder("privacy_leakage", "privacy leakage")
"""How far a run is from the ideal model's forgetting, in points."""


def forgetting_points(result: Result, distance: Remainder = MEMORISATION) -> list[StoppingPoint]:
    """Distance from the ideal model's forgetting, and utility lost, in points, at every epoch.

    The fields of a point trade places here: ``lost`` is the distance, ``distance`` the utility.
    """
    start = result.value("model_utility", 0)
    points = []
    for row in result.evaluated:
        gap, utility = distance.signed(row), row.get("model_utility")
        if start is not None and gap is not None and utility is not None:
            points.append(StoppingPoint(abs(gap), 100.0 * (start - utility)))
    return points


def utility_gain(
    base: Sequence[Result], addon: Sequence[Result], distance: Remainder = MEMORISATION
) -> float | None:
    """The utility that the add-on keeps and the base loses at equal forgetting, in points.

    The mean over distances from where the slower of the two ends up to where both start.
    """
    clouds = [
        [point for result in variant for point in forgetting_points(result, distance)]
        for variant in (base, addon)
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


def best_quality(results: Sequence[Result], most: float = 10.0) -> float | None:
    """log10 of the best forget quality at a cost of at most ``most`` points of utility."""
    values = [
        row["forget_quality"]
        for result in results
        if (start := result.value("model_utility", 0)) is not None
        for row in result.evaluated
        if row.get("forget_quality") is not None and row.get("model_utility") is not None
        if 100.0 * (start - row["model_utility"]) <= most
    ]
    return math.log10(max(max(values), 1e-300)) if values else None


def quality_gain(base: Sequence[Result], addon: Sequence[Result]) -> float | None:
    """Powers of ten by which the add-on's best p-value is the higher one."""
    first, second = best_quality(base), best_quality(addon)
    return None if first is None or second is None else second - first


Gains = dict[int, float]
"""What an add-on gains over the method alone, by seed."""


@dataclass(frozen=True)
class Gain:
    """What the add-on gains over the method alone is above zero, seed by seed.

    ``measure`` gets the runs of a seed, at all settings, without and with the add-on. There is a
    finding for each method and task, after one for all of them together.
    """

    addon: str
    measure: Callable[[Sequence[Result], Sequence[Result]], float | None]
    unit: str

    def __call__(self, claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
        each: list[tuple[str, Gains, int]] = []
        for runs in tasks:
            methods = [variant.method for variant in runs.variants if variant.addon == self.addon]
            alone = [m for m in dict.fromkeys(methods) if Variant(m) in runs.variants]
            for _, variant, group in each_variant([runs], alone, (self.addon,)):
                base, addon = runs.sweep(Variant(variant.method)), runs.sweep(variant)
                each.append((group, self._gains(base, addon), count_diverged(addon.values())))
        if len(each) > 1:
            yield self._together(claim, each)
        for group, found, failed in each:
            yield self._settled(claim, group, found, failed)

    def _gains(self, base: Sweep, addon: Sweep) -> Gains:
        first, second = _by_seed(base), _by_seed(addon)
        shared = sorted(set(first) & set(second))
        gains = {seed: self.measure(first[seed], second[seed]) for seed in shared}
        return {seed: gain for seed, gain in gains.items() if gain is not None}

    def _together(self, claim: Claim, each: Sequence[tuple[str, Gains, int]]) -> ClaimFinding:
        """For every seed the mean over the variants that all seeds have."""
        seeds = {seed for _, found, _ in each for seed in found}
        whole = [found for _, found, _ in each if seeds and set(found) == seeds]
        means = {s: float(np.mean([found[s] for found in whole])) for s in sorted(seeds) if whole}
        better = sum(np.mean([*found.values()]) > 0.0 for found in whole)
        detail = f"better with it in {better} of {len(whole)} by the mean over seeds"
        left_out = len(each) - len(whole)
        detail += f"; not compared at every seed, left out: {left_out}" if left_out else ""
        group = f"all {len(whole)} pairs of method and task"
        return self._settled(claim, group, means, sum(failed for *_, failed in each), detail)

    def _settled(
        self, claim: Claim, group: str, found: Gains, failed: int, detail: str = ""
    ) -> ClaimFinding:
        values, region = [*found.values()], Region(low=0.0)
        diverged = f"add-on runs diverged: {failed}" if failed else ""
        return settle(claim, group, values, region, self.unit, detail, diverged, failures=failed)


def _by_seed(sweep: Sweep) -> dict[int, list[Result]]:
    by_seed: dict[int, list[Result]] = {}
    for seeds in sweep.values():
        for seed, result in seeds.items():
            by_seed.setdefault(seed, []).append(result)
    return by_seed


def _claim(statement: str, name: str, rule: Gain) -> Claim:
    return Claim(name, statement, "Ours; the paper has images alone", rule, texts=True)


def _utility(kind: str, addon: str, distance: Remainder) -> Claim:
    return _claim(
        f"At equal {distance.label}, {addon.upper()} keeps more of a language model's utility than "
        "the method alone.",
        f"text-{addon}-{kind}",
        Gain(addon, partial(utility_gain, distance=distance), "points"),
    )


def _quality(addon: str) -> Claim:
    return _claim(
        f"At a cost of at most 10 points of utility, {addon.upper()} reaches a better forget "
        "quality than the method alone.",
        f"text-{addon}-quality",
        Gain(addon, quality_gain, "log10 p"),
    )


TEXT_FOCUS_UTILITY = _utility("utility", "focus", MEMORISATION)
TEXT_PROB_UTILITY = _utility("utility", "prob", MEMORISATION)
TEXT_FOCUS_PRIVACY = _utility("privacy", "focus", LEAKAGE)
TEXT_PROB_PRIVACY = _utility("privacy", "prob", LEAKAGE)
TEXT_FOCUS_QUALITY, TEXT_PROB_QUALITY = _quality("focus"), _quality("prob")
