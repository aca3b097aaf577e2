"""Claims on time: what an add-on adds to a step, and how many epochs FOCUS needs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from expunge.bench._records import Record
from expunge.bench._runs import CONSTRAINED_METHODS, Arm, TaskRuns
from expunge.bench.claims._base import Claim, ClaimFinding, each_arm, group_name
from expunge.bench.claims._statistics import Pairs, Region, settle

CLOCKS = {"processor_seconds": "processor time", "seconds": "wall time"}


def steady_time(record: Record, clock: str) -> float | None:
    """Time of the steps after the first epoch, which may be a warm-up; of the only one if alone."""
    times = [row[clock] for row in record.epochs if row["epoch"] > 0 and row.get(clock)]
    if not times:
        return None
    return float(times[-1] - times[0]) if len(times) > 1 else float(times[0])


def log_ratio(base: float | None, arm: float | None) -> float | None:
    """log(arm / base); None unless both are positive."""
    return math.log(arm / base) if base and arm and base > 0 and arm > 0 else None


@dataclass(frozen=True)
class Overhead:
    """A step with the add-on takes at most ``most`` per cent more time than one without.

    Ratios are averaged on a log scale; processor time is taken where every run has it, since other
    work on the machine disturbs it less. Cheaper than the paper's figure is fine.
    """

    cases: tuple[tuple[str, str], ...]
    """Methods with add-ons."""
    most: float

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        for method, addon in self.cases:
            for runs, arm in each_arm(tasks, (method,), (addon,)):
                base = runs.at_main(Arm(method))
                pairs = Pairs.of(base, runs.at_main(arm))
                clock = _clock(pairs)
                yield settle(
                    claim,
                    group_name(runs, arm),
                    pairs.values(partial(_log_slowdown, clock)),
                    Region(high=math.log1p(self.most / 100)),
                    "%",
                    CLOCKS[clock] if pairs.both else "",
                    pairs.remark,
                    failures=len(pairs.arm_diverged),
                    scale=lambda x: 100 * math.expm1(x),
                )


@dataclass(frozen=True)
class Sooner:
    """FOCUS reaches the method's final |rUA| in fewer epochs than the method itself.

    The level is the |rUA| that the method alone ends with; each arm reaches it at the first epoch
    evaluated at which it is no higher. The effect is the ratio of the two epochs, averaged on a log
    scale. A run that never gets there is a failure, and counts as having needed all its epochs.
    """

    addon: str = "focus"
    methods: tuple[str, ...] = CONSTRAINED_METHODS
    below: float = 1.0

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        for runs, arm in each_arm(tasks, self.methods, (self.addon,)):
            base = runs.at_main(Arm(arm.method))
            pairs = Pairs.of(base, runs.at_main(arm))
            late = [s for s, (a, b) in pairs.both.items() if b.evaluated and _misses(a, b)]
            yield settle(
                claim,
                group_name(runs, arm),
                [] if len(late) == len(pairs.both) else pairs.values(epochs_needed),
                Region(high=math.log(self.below)),
                "× epochs",
                _epochs_in_words(pairs),
                f"not reached with seed {', '.join(map(str, late))}" if late else "",
                pairs.remark,
                failures=len(late) + len(pairs.arm_diverged),
                scale=math.exp,
            )


def first_at(record: Record, level: float) -> int | None:
    """The first epoch evaluated, from 1, with |rUA| no higher than ``level``."""
    rows = (row for row in record.evaluated if row["epoch"] > 0 and "rua" in row)
    return next((int(row["epoch"]) for row in rows if abs(row["rua"]) <= level + 1e-9), None)


def epochs_needed(base: Record, arm: Record) -> float | None:
    """log of the ratio of the epochs that both need to reach the base's final |rUA|."""
    level = base.value("abs_rua")
    if level is None or not arm.evaluated or base.final["epoch"] < 1:
        return None
    return log_ratio(first_at(base, level), first_at(arm, level) or arm.final["epoch"])


def _misses(base: Record, arm: Record) -> bool:
    level = base.value("abs_rua")
    return level is not None and first_at(arm, level) is None


def _epochs_in_words(pairs: Pairs) -> str:
    epochs = []
    for base, arm in pairs.both.values():
        level = base.value("abs_rua")
        if level is not None:
            epochs.append(f"{first_at(arm, level) or 'never'}/{first_at(base, level) or 'never'}")
    return f"epochs by seed, FOCUS/base: {', '.join(epochs)}" if epochs else ""


def _clock(pairs: Pairs) -> str:
    name = "processor_seconds"
    runs = (record for pair in pairs.both.values() for record in pair)
    return name if all(steady_time(run, name) is not None for run in runs) else "seconds"


def _log_slowdown(clock: str, base: Record, arm: Record) -> float | None:
    return log_ratio(steady_time(base, clock), steady_time(arm, clock))


_PAPERS_ADDONS = tuple(itertools.product(CONSTRAINED_METHODS, ("focus", "prob", "and")))
OVERHEAD = Claim(
    "overhead",
    "FOCUS, PROB and AND, and SalUn on NGPlus, add at most 22 % to the time of a step.",
    "Sect. 6.3.1, which gives about 22 %",
    Overhead((*_PAPERS_ADDONS, ("neg-grad-plus", "saliency")), most=22.0),
)
SALUN_OVERHEAD = Claim(
    "salun-overhead",
    "SalUn on SRL and SCRUB, where it needs a third gradient, adds at most 55 % to a step's time.",
    "Sect. 6.3.1, which gives about 55 %",
    Overhead((("random-label", "saliency"), ("scrub", "saliency")), most=55.0),
)
FAST = Claim(
    "fast",
    "FOCUS reaches the method's final |rUA| in fewer epochs (about half).",
    'Fig. 6, 8 and 9, Sect. 6.3.4: "competitors need about twice as much time"',
    Sooner(),
)
