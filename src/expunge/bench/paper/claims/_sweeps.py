"""Two variants over one sweep: where their runs could stop, and the frontiers of these points.

Every evaluated epoch of every run is a point (TA lost, what is left to forget): you could have
stopped there. So is the place between two epochs of a run where what is left passes zero, for
otherwise a variant of large steps would never be seen to arrive. The initial model, at TA lost 0,
is a point of every sweep. A frontier consists of the points that no other point betters; between
neighbours on it we interpolate, so that how densely a sweep samples a curve makes next to no
difference.

Two variants are compared over the settings that both were run with, for every seed alike, and only
up to the TA loss that both reach with every seed: neither is blamed for what it did not try.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from expunge.bench._results import PAPER_METHODS, BenchResult
from expunge.bench._tasks import Sweep

MIN_SETTINGS = 3
"""Settings of rate and α that make a sweep."""
MAX_LOST = 2.0
"""Points of TA lost up to which frontiers are compared, fixed beforehand: at larger losses both
sides have often reached zero, and such losses dilute the mean."""
STEP = 0.25
"""Points of TA from one of the losses compared to the next."""
SWEPT_METHODS = (*PAPER_METHODS, "match-unseen")
SWEPT_ADDONS = ("focus", "prob", "and")


class StoppingPoint(NamedTuple):
    """Where a run could stop: points of TA lost against the initial model, and what is left."""

    lost: float
    distance: float


def unseen_gap(row: Mapping[str, Any]) -> float | None:
    """Accuracy on the forgotten images minus that on test images of a class, mean over classes.

    About zero for a model that never saw them; nobody needs an ideal model to measure it. None
    where accuracies were not measured by class.

    >>> unseen_gap({"ua_class_3": 80.0, "ta_class_3": 70.0, "ta_class_4": 95.0})
    10.0
    """
    ends = [name.removeprefix("ua") for name in row if name.startswith("ua_class_")]
    gaps = [row[f"ua{end}"] - row[f"ta{end}"] for end in ends if f"ta{end}" in row]
    return float(np.mean(gaps)) if gaps else None


@dataclass(frozen=True)
class Remainder:
    """What is left to forget: a metric, or a function of a row, minus the ideal's, in points."""

    measure: str | Callable[[Mapping[str, Any]], float | None]
    label: str
    ideal: float = 0.0
    scale: float = 1.0
    margin: float = 0.25
    """Differences of frontiers that the choice of stopping points alone can make."""

    def signed(self, row: Mapping[str, Any]) -> float | None:
        """How far above the ideal an epoch is; None where it was not measured."""
        value = row.get(self.measure) if isinstance(self.measure, str) else self.measure(row)
        return None if value is None else self.scale * (value - self.ideal)


RUA = Remainder("rua", "|rUA|")
RMIA_AUC = Remainder("rmia_auc", "|RMIA AUC - 0.5|", ideal=0.5, scale=100.0, margin=0.5)
"""In hundredths. Half a one is the standard error of an AUC over 4,500 forgotten images."""
UNSEEN = Remainder(unseen_gap, "|UA - TA|")


def balanced(sweeps: Sequence[Sweep], least: int = 1) -> list[Sweep]:
    """The same sweeps with the settings, ``least`` or more, and the seeds that all of them have."""
    runs = [{(setting, seed) for setting in sweep for seed in sweep[setting]} for sweep in sweeps]
    by_seed: dict[int, set[Any]] = {}
    for setting, seed in set.intersection(*runs):
        by_seed.setdefault(seed, set()).add(setting)
    finished = {seed: setting for seed, setting in sorted(by_seed.items()) if len(setting) >= least}
    shared = set.intersection(*finished.values()) if finished else set()
    settings = [setting for setting in sweeps[0] if setting in shared]
    if len(settings) < least:
        return [{} for _ in sweeps]
    return [
        {setting: {seed: sweep[setting][seed] for seed in finished} for setting in settings}
        for sweep in sweeps
    ]


def seeds_of(sweep: Sweep) -> list[int]:
    """The seeds of a sweep, ascending."""
    return sorted({seed for runs in sweep.values() for seed in runs})


def stopping_points(result: BenchResult, remainder: Remainder = RUA) -> list[StoppingPoint]:
    """The points of a run, and where it passes zero after its first epoch, which is not even."""
    start = result.value("ta", 0)
    path = [
        (int(row["epoch"]), start - row["ta"], left)
        for row in result.evaluated
        if start is not None and row.get("ta") is not None
        and (left := remainder.signed(row)) is not None
    ]  # fmt: skip
    points = [StoppingPoint(lost, abs(left)) for _, lost, left in path]
    for (epoch, lost, left), (_, lost_next, left_next) in itertools.pairwise(path):
        if epoch > 0 and left * left_next < 0:
            share = left / (left - left_next)
            points.append(StoppingPoint(lost + share * (lost_next - lost), 0.0))
    return points


def pareto(points: Iterable[StoppingPoint]) -> list[StoppingPoint]:
    """The points that no other betters in both, by rising TA loss and strictly falling distance."""
    front: list[StoppingPoint] = []
    for point in sorted(points):
        if not front or point.distance < front[-1].distance:
            front.append(point)
    return front


def frontier_at(front: Sequence[StoppingPoint], ta_lost: Sequence[float]) -> list[float]:
    """What a frontier leaves at losses of TA: lines between neighbours, nan before the first."""
    lost, distance = zip(*front, strict=True)
    return [float(v) for v in np.interp(ta_lost, lost, distance, left=np.nan)]


@dataclass(frozen=True)
class Frontiers:
    """The frontiers of two variants by seed, and the losses of TA that both reach with every seed.

    ``settings`` counts what was compared, ``left_out`` the runs without a counterpart, and
    ``unfinished`` the seeds with too few settings.
    """

    base: dict[int, list[StoppingPoint]]
    other: dict[int, list[StoppingPoint]]
    ta_lost: list[float]
    settings: int
    left_out: int = 0
    unfinished: int = 0

    @property
    def differences(self) -> dict[int, list[float]]:
        """The other's frontier minus the base's at each loss of TA, by seed."""
        return {
            seed: [
                second - first
                for first, second in zip(
                    frontier_at(self.base[seed], self.ta_lost),
                    frontier_at(self.other[seed], self.ta_lost),
                    strict=True,
                )
            ]
            for seed in self.base
        }

    @property
    def means(self) -> list[float]:
        """For each seed the mean difference over the losses of TA, in points of what is left."""
        return [float(np.mean(values)) for values in self.differences.values()]


def compare_frontiers(
    base: Sweep,
    other: Sweep,
    *,
    remainder: Remainder = RUA,
    least: int = MIN_SETTINGS,
) -> Frontiers:
    """Compare two sweeps at losses of TA of 0, ``STEP``, … ``MAX_LOST`` points, seed by seed.

    ``least`` is the number of settings that make a sweep.
    """
    # The runs that both variants have, and what is left out.
    pair = balanced((base, other), least)
    seeds, settings = seeds_of(pair[0]), len(pair[0])
    left_out = sum(map(_count, (base, other))) - sum(map(_count, pair))
    unfinished = len(set(seeds_of(base)) & set(seeds_of(other))) - len(seeds)

    # All points of both variants by seed; a seed without any was not measured.
    clouds = [
        {
            seed: [p for r in sweep.values() for p in stopping_points(r[seed], remainder)]
            for seed in seeds
        }
        for sweep in pair
    ]
    measured = [seed for seed in seeds if all(cloud[seed] for cloud in clouds)]

    # Their frontiers, and the losses of TA that both variants reach with every seed.
    reach = min(
        (max(p.lost for p in cloud[seed]) for cloud in clouds for seed in measured), default=0.0
    )
    ta_lost = [
        float(points)
        for points in np.arange(0.0, MAX_LOST + STEP / 2, STEP)
        if points <= max(reach, 0.0) + 1e-9
    ]
    first, second = ({seed: pareto(cloud[seed]) for seed in measured} for cloud in clouds)
    return Frontiers(first, second, ta_lost, settings, left_out, unfinished)


def _count(sweep: Sweep) -> int:
    return sum(len(seeds) for seeds in sweep.values())
