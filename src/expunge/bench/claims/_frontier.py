"""The claims that an add-on is more than a faster clock: frontiers of forgetting over TA lost.

Every evaluated epoch of every run of a sweep is a point (TA lost, what is left to forget): one
could have stopped there. What is left is |rUA|, or how far the AUC of RMIA is from chance, or how
far accuracies on forgotten and on unseen images are apart. The initial model, at TA lost 0, is a
point of every sweep. A frontier consists of the points that no other point betters; between
neighbours on it we interpolate, so that how densely a sweep samples a curve makes next to no
difference. Two frontiers are compared only up to the TA loss that both sweeps reach: an arm is not
blamed for what it did not try.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import CONSTRAINED_METHODS, Arm, Dials, Sweep, TaskRuns
from expunge.bench.claims._base import Claim, ClaimFinding, each_arm, group_name
from expunge.bench.claims._statistics import Region, mean_over_seeds, settle, verdict
from expunge.update import ADDONS


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
    """What is left to forget: how far a measure is from what an ideal model has, in points.

    ``measure`` is a metric's name, or a function of the row of an epoch.
    """

    measure: str | Callable[[Mapping[str, Any]], float | None]
    label: str
    ideal: float = 0.0
    scale: float = 1.0
    margin: float = 0.25
    """Differences of frontiers that the choice of stopping points alone can make."""

    def of(self, row: Mapping[str, Any]) -> float | None:
        """Its value at an epoch; None where it was not measured."""
        value = row.get(self.measure) if isinstance(self.measure, str) else self.measure(row)
        return None if value is None else self.scale * abs(value - self.ideal)


RUA = Remainder("rua", "|rUA|")
RMIA_AUC = Remainder("rmia_auc", "|RMIA AUC - 0.5|", ideal=0.5, scale=100.0, margin=0.5)
"""In hundredths. Half a one is the standard error of an AUC over 4,500 forgotten images."""
UNSEEN = Remainder(unseen_gap, "|UA - TA|")


def stopping_points(record: Record, remainder: Remainder = RUA) -> dict[int, StoppingPoint]:
    """The points of a run by epoch; epoch 0 is the initial model."""
    start = record.value("ta", 0)
    points = {}
    for row in record.evaluated:
        left = remainder.of(row)
        if start is not None and row.get("ta") is not None and left is not None:
            points[int(row["epoch"])] = StoppingPoint(start - row["ta"], left)
    return points


def pareto(points: Iterable[StoppingPoint]) -> list[StoppingPoint]:
    """The points that no other betters in both, by rising TA loss and strictly falling |rUA|.

    >>> pareto([StoppingPoint(0, 5), StoppingPoint(1, 3), StoppingPoint(2, 4), StoppingPoint(1, 2)])
    [StoppingPoint(lost=0, distance=5), StoppingPoint(lost=1, distance=2)]
    """
    front: list[StoppingPoint] = []
    for point in sorted(points):
        if not front or point.distance < front[-1].distance:
            front.append(point)
    return front


def lowest(front: Sequence[StoppingPoint], budgets: Sequence[float]) -> list[float]:
    """What a frontier leaves at TA budgets: lines between neighbours, nan before the first."""
    lost, distance = zip(*front, strict=True)
    return [float(v) for v in np.interp(budgets, lost, distance, left=np.nan)]


@dataclass(frozen=True)
class Frontiers:
    """Two sweeps by seed, and their frontiers' difference (add-on minus base) at each budget.

    ``differences`` has a list per seed, as long as the budgets that both its sweeps reach.
    ``skipped`` counts runs without a partner of the same dials and seed in the other arm,
    ``settings`` the dials that were compared, ``unfinished`` the seeds with too few of them.
    """

    base: dict[int, list[StoppingPoint]]
    addon: dict[int, list[StoppingPoint]]
    budgets: list[float]
    differences: dict[int, list[float]]
    settings: int
    skipped: int
    unfinished: int = 0

    @property
    def areas(self) -> list[float]:
        """For each seed the mean difference over its budgets, in points of what is left."""
        return [float(np.mean(values)) for values in self.differences.values()]

    def mean_differences(self) -> list[tuple[float, float]]:
        """Each budget with the mean difference over the seeds that reach it."""
        every = list(self.differences.values())
        means = []
        for k, budget in enumerate(self.budgets):
            reached = [values[k] for values in every if len(values) > k]
            if reached:
                means.append((budget, float(np.mean(reached))))
        return means


def compare_frontiers(
    base: Sweep,
    addon: Sweep,
    *,
    most: float = 5.0,
    step: float = 0.25,
    remainder: Remainder = RUA,
    least: int = 1,
) -> Frontiers:
    """Compare two sweeps at TA budgets of 0, ``step``, … ``most`` points, seed by seed.

    Only runs with a partner of the same dials and seed in the other arm take part, and only seeds
    with at least ``least`` of such dials: the sweep of another is not finished.
    """
    every, skipped = _shared_dials(base, addon)
    settings = len({dials for seed in every.values() for dials in seed})
    shared = {seed: dials for seed, dials in every.items() if len(dials) >= least}
    points = [_points(base, shared, remainder), _points(addon, shared, remainder)]
    budgets = [float(b) for b in np.arange(0.0, most + step / 2, step)]
    differences: dict[int, list[float]] = {}
    fronts: list[dict[int, list[StoppingPoint]]] = [{}, {}]
    for seed in shared:
        # All points of both arms.
        clouds = [[p for run in arm[seed].values() for p in run.values()] for arm in points]
        if not all(clouds):
            continue

        # Their frontiers at the budgets that both reach.
        reach = min(max(point.lost for point in cloud) for cloud in clouds)
        reached = [budget for budget in budgets if budget <= max(reach, 0.0) + 1e-9]
        for front, cloud in zip(fronts, clouds, strict=True):
            front[seed] = pareto(cloud)
        values = [np.array(lowest(front[seed], reached)) for front in fronts]
        differences[seed] = [float(v) for v in values[1] - values[0]]
    unfinished = len(every) - len(shared)
    first, second = fronts
    return Frontiers(first, second, budgets, differences, settings, skipped, unfinished)


Cloud = dict[int, dict[Dials, dict[int, StoppingPoint]]]
"""Points by seed, dials and epoch."""


def _shared_dials(base: Sweep, addon: Sweep) -> tuple[dict[int, list[Dials]], int]:
    """The dials that both arms have, by seed, and the number of runs without a partner."""
    shared: dict[int, list[Dials]] = {}
    skipped = 0
    for dials in dict.fromkeys([*base, *addon]):
        first, second = set(base.get(dials, ())), set(addon.get(dials, ()))
        skipped += len(first ^ second)
        for seed in sorted(first & second):
            shared.setdefault(seed, []).append(dials)
    return dict(sorted(shared.items())), skipped


def _points(sweep: Sweep, shared: Mapping[int, Sequence[Dials]], remainder: Remainder) -> Cloud:
    return {
        seed: {dials: stopping_points(sweep[dials][seed], remainder) for dials in each}
        for seed, each in shared.items()
    }


@dataclass(frozen=True)
class Dominates:
    """An add-on's frontier over TA lost lies below the base's, with the same sweep for both.

    The effect is the area between the frontiers: for each seed the mean, over TA budgets from 0 to
    ``most`` points, of the least that is left within reach of the add-on minus that of the base. A
    faster clock moves along the same curve and ends at zero. Held is an interval below minus the
    margin of the ``remainder``, not held one above it, the difference that the choice of stopping
    points alone can make. A sweep has at least ``settings`` settings. Methods of ``also`` count
    where they were tried.
    """

    addons: tuple[str, ...] = ("focus",)
    remainder: Remainder = RUA
    methods: tuple[str, ...] = CONSTRAINED_METHODS
    also: tuple[str, ...] = ("match-unseen",)
    most: float = 5.0
    step: float = 0.25
    settings: int = 3

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        for runs, arm in each_arm(tasks, (*self.methods, *self.also), self.addons):
            base, addon = runs.sweep(Arm(arm.method)), runs.sweep(arm)
            if arm.method in self.also and not addon:
                continue
            frontiers = compare_frontiers(
                base,
                addon,
                most=self.most,
                step=self.step,
                remainder=self.remainder,
                least=self.settings,
            )
            group = group_name(runs, arm)
            if frontiers.settings < self.settings:
                why = f"a sweep has at least {self.settings} settings, here {frontiers.settings}"
                yield ClaimFinding(claim, group, "no data", detail=why)
                continue
            if not frontiers.areas:
                why = (
                    f"no seed has {self.settings} settings yet"
                    if frontiers.unfinished and not frontiers.base
                    else f"{self.remainder.label} was not measured"
                )
                yield ClaimFinding(claim, group, "no data", detail=why)
                continue
            diverged = _count_diverged(base), _count_diverged(addon)
            yield self._finding(claim, group, frontiers, ADDONS.label(arm.addon), *diverged)

    def _finding(
        self,
        claim: Claim,
        group: str,
        frontiers: Frontiers,
        addon: str,
        base_lost: int,
        addon_lost: int,
    ) -> ClaimFinding:
        area, margin = mean_over_seeds(frontiers.areas), self.remainder.margin
        unfinished = frontiers.unfinished
        alike = verdict(area.interval, area.n, Region(-margin, margin)) == "held"
        return settle(
            claim,
            group,
            frontiers.areas,
            Region(high=-margin, grey=2 * margin),
            "points",
            f"the frontiers coincide within {margin:g} points" if alike else "",
            _winners_in_words(frontiers, addon),
            _least_in_words(frontiers, addon, self.remainder.label),
            f"{frontiers.settings} settings",
            f"runs of one arm only, left out: {frontiers.skipped}" if frontiers.skipped else "",
            f"seeds with fewer settings, left out: {unfinished}" if unfinished else "",
            f"base runs diverged: {base_lost}" if base_lost else "",
            f"add-on runs diverged: {addon_lost}" if addon_lost else "",
            failures=addon_lost,
        )


def _count_diverged(sweep: Sweep) -> int:
    return sum(bool(record.diverged) for seeds in sweep.values() for record in seeds.values())


def _least_in_words(frontiers: Frontiers, addon: str, label: str) -> str:
    """``least |rUA| within reach of both 0.41 with FOCUS, 1.30 without``: lower need not be low."""
    ends = []
    for seed, values in frontiers.differences.items():
        last = frontiers.budgets[: len(values)][-1:]
        ends.append([lowest(front[seed], last)[0] for front in (frontiers.addon, frontiers.base)])
    with_it, without = np.mean(ends, axis=0)
    return f"least {label} within reach of both {with_it:.2f} with {addon}, {without:.2f} without"


def _winners_in_words(frontiers: Frontiers, addon: str = "FOCUS") -> str:
    """``FOCUS lower at TA budgets 0-1.5, base at 2-3.25``."""
    sentences = []
    for name, sign in ((addon, -1), ("base", 1)):
        spans = []
        by_winner = itertools.groupby(
            frontiers.mean_differences(), key=lambda pair: sign * pair[1] > 1e-9
        )
        for won, part in by_winner:
            budgets = [budget for budget, _ in part]
            if won:
                last = f"-{budgets[-1]:g}" if len(budgets) > 1 else ""
                spans.append(f"{budgets[0]:g}{last}")
        if spans:
            sentences.append(f"{name} lower at TA budgets {', '.join(spans)}")
    return "; ".join(sentences) or "no difference at any TA budget"


_SWEEP = "over a sweep of lr, alpha and epochs"
CLOCK = Claim(
    "clock",
    f"FOCUS is more than a faster clock: {_SWEEP} its frontier of |rUA| "
    f"over TA lost lies below the base's, by more than {RUA.margin} points on average.",
    "Ours; cf. Prop. 7, case 2",
    Dominates(),
)
CLOCK_MASKS = Claim(
    "clock-masks",
    f"AND and PROB are more than a faster clock: {_SWEEP} their frontier of |rUA| "
    f"over TA lost lies below the base's, by more than {RUA.margin} points on average.",
    "Ours",
    Dominates(("and", "prob"), methods=(), also=(*CONSTRAINED_METHODS, "match-unseen")),
)
CLOCK_RMIA = Claim(
    "clock-rmia",
    f"An add-on leaves less for RMIA to find at the same loss of TA: {_SWEEP} its frontier of "
    f"|AUC - 0.5| lies below the base's, by more than {RMIA_AUC.margin / 100:g} on average "
    "(points are hundredths).",
    "Ours",
    Dominates(
        ("focus", "prob", "and"),
        RMIA_AUC,
        methods=(),
        also=(*CONSTRAINED_METHODS, "match-unseen"),
    ),
)
CLOCK_UNSEEN = Claim(
    "clock-unseen",
    "An add-on brings accuracies on forgotten and on unseen images nearer to each other at the "
    f"same loss of TA: {_SWEEP} its frontier of |UA - TA| lies below the base's, by more than "
    f"{UNSEEN.margin} points on average.",
    "Ours",
    Dominates(
        ("focus", "prob", "and"),
        UNSEEN,
        methods=(),
        also=(*CONSTRAINED_METHODS, "match-unseen"),
    ),
)
