"""The trade-off between test accuracy and forgetting over a sweep, and two of them compared.

Every evaluated epoch of every run of a sweep is a point (TA lost, |rUA|): one could have stopped
there. The initial model, at (0, its |rUA|), is a point of every sweep. A frontier is what no other
point betters; between neighbours on it we draw a line, so that how densely a sweep samples a curve
makes next to no difference. Two frontiers are compared only up to the TA loss that both sweeps go
to: an arm is not blamed for what it was not asked to try.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from expunge.bench._records import Record
from expunge.bench.claims._arms import Setting
from expunge.bench.claims._claim_runs import Seeds, Sweep


class Point(NamedTuple):
    """A place to stop at: points of TA lost against the initial model, and |rUA|."""

    lost: float
    distance: float


def stopping_points(record: Record) -> dict[int, Point]:
    """The points of a run by epoch; epoch 0 is the initial model."""
    start = record.value("ta", 0)
    found = {}
    for row in record.evaluated:
        if start is not None and row.get("ta") is not None and row.get("rua") is not None:
            found[int(row["epoch"])] = Point(start - row["ta"], abs(row["rua"]))
    return found


def pareto(points: Iterable[Point]) -> list[Point]:
    """Those that no other betters in both, by rising TA loss and strictly falling |rUA|.

    >>> pareto([Point(0, 5), Point(1, 3), Point(2, 4), Point(1, 2)])
    [Point(lost=0, distance=5), Point(lost=1, distance=2)]
    """
    front: list[Point] = []
    for point in sorted(points):
        if not front or point.distance < front[-1].distance:
            front.append(point)
    return front


def lowest(front: Sequence[Point], budgets: Sequence[float]) -> list[float]:
    """|rUA| of a frontier at TA budgets: lines between neighbours, nan before the first point."""
    lost, distance = zip(*front, strict=True)
    return [float(v) for v in np.interp(budgets, lost, distance, left=np.nan)]


@dataclass(frozen=True)
class Frontiers:
    """Two sweeps by seed, and their frontiers' difference (add-on minus base) at each budget.

    ``differences`` has a list a seed, as long as the budgets that both its sweeps go to. ``means``
    are the frontiers of the points averaged over seeds. ``skipped`` counts runs without a partner
    of the same setting and seed in the other arm; ``settings`` those that were compared.
    """

    base: dict[int, list[Point]]
    addon: dict[int, list[Point]]
    means: tuple[list[Point], list[Point]]
    budgets: list[float]
    differences: dict[int, list[float]]
    settings: int
    skipped: int

    @property
    def areas(self) -> list[float]:
        """For each seed the mean difference over its budgets, in points of |rUA|."""
        return [float(np.mean(values)) for values in self.differences.values()]

    def winners(self) -> list[tuple[float, float]]:
        """Each budget with the mean difference over the seeds that go there."""
        every = list(self.differences.values())
        told = []
        for k, budget in enumerate(self.budgets):
            there = [values[k] for values in every if len(values) > k]
            if there:
                told.append((budget, float(np.mean(there))))
        return told


def compare_frontiers(
    base: Sweep, addon: Sweep, *, most: float = 5.0, step: float = 0.25
) -> Frontiers:
    """Compare two sweeps at TA budgets of 0, ``step``, … ``most`` points, seed by seed.

    Only runs with a partner of the same setting and seed in the other arm take part.
    """
    shared, skipped = _shared(base, addon)
    points = [_points(base, shared), _points(addon, shared)]
    budgets = [float(b) for b in np.arange(0.0, most + step / 2, step)]
    differences: dict[int, list[float]] = {}
    fronts: list[dict[int, list[Point]]] = [{}, {}]
    for seed in shared:
        both = [[p for run in arm[seed].values() for p in run.values()] for arm in points]
        if not all(both):
            continue
        reach = min(max(p.lost for p in found) for found in both)
        own = [b for b in budgets if b <= max(reach, 0.0) + 1e-9]
        for front, found in zip(fronts, both, strict=True):
            front[seed] = pareto(found)
        values = [np.array(lowest(front[seed], own)) for front in fronts]
        differences[seed] = [float(v) for v in values[1] - values[0]]
    means = (pareto(mean_points(points[0])), pareto(mean_points(points[1])))
    count = len({setting for settings in shared.values() for setting in settings})
    return Frontiers(fronts[0], fronts[1], means, budgets, differences, count, skipped)


Cloud = dict[int, dict[Setting, dict[int, Point]]]
"""Points by seed, setting and epoch."""


def mean_points(cloud: Cloud) -> list[Point]:
    """The mean over seeds of every setting and epoch that all seeds have."""
    keys = [{(s, e) for s, run in runs.items() for e in run} for runs in cloud.values()]
    found = []
    for setting, epoch in sorted(set.intersection(*keys), key=repr) if keys else []:
        lost, distance = np.mean([runs[setting][epoch] for runs in cloud.values()], axis=0)
        found.append(Point(float(lost), float(distance)))
    return found


def _shared(base: Sweep, addon: Sweep) -> tuple[dict[int, list[Setting]], int]:
    """The settings that both arms have, by seed, and the number of runs without a partner."""
    shared: dict[int, list[Setting]] = {}
    skipped = 0
    for setting in dict.fromkeys([*base, *addon]):
        first: Mapping[int, Record] = base.get(setting, {})
        second: Seeds = addon.get(setting, {})
        skipped += len(set(first) ^ set(second))
        for seed in sorted(set(first) & set(second)):
            shared.setdefault(seed, []).append(setting)
    return dict(sorted(shared.items())), skipped


def _points(sweep: Sweep, shared: Mapping[int, Sequence[Setting]]) -> Cloud:
    return {
        seed: {setting: stopping_points(sweep[setting][seed]) for setting in settings}
        for seed, settings in shared.items()
    }
