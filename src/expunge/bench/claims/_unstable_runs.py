"""Claims on unstable runs: AND on NGPlus, and the first epochs of MSG and CT."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import Arm, TaskRuns
from expunge.bench.claims._base import Claim, ClaimFinding, ClaimStatus, each_arm, group_name
from expunge.bench.claims._metric_shift import change
from expunge.bench.claims._statistics import MIN_SEEDS, Pairs, Region, diverged_in_words, settle

Measure = Callable[[Record, Record], float | None]


def swing(record: Record) -> float | None:
    """Highest minus lowest rUA over the evaluated epochs except the initial model, in points."""
    values = [row["rua"] for row in record.evaluated if row["epoch"] > 0 and "rua" in row]
    return float(max(values) - min(values)) if len(values) > 1 else None


def swings_more(focus: Record, mask: Record) -> float | None:
    """The mask's swing minus FOCUS's."""
    first, second = swing(focus), swing(mask)
    return None if first is None or second is None else round(second - first, 5)


@dataclass(frozen=True)
class Unstable:
    """AND against FOCUS on the same method, by three measures, each a finding of its own:

    - |rUA| of AND is higher at the last epoch;
    - TA of AND is lower at the last epoch;
    - rUA of AND swings more (highest minus lowest) over the epochs evaluated.

    The spread of rUA over seeds goes into the detail: three seeds cannot test a spread. AND runs
    that diverge speak for the claim, FOCUS runs that do against it.
    """

    methods: tuple[str, ...] = ("neg-grad-plus",)

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        measures: list[tuple[str, Measure, Region]] = [
            ("|rUA|", partial(change, "abs_rua"), Region(low=0.0)),
            ("TA", partial(change, "ta"), Region(high=0.0)),
            ("swing of rUA", swings_more, Region(low=0.0)),
        ]
        for runs, focus in each_arm(tasks, self.methods, ("focus",)):
            mask = Arm(focus.method, "and")
            pairs = Pairs.of(runs.at_main(focus), runs.at_main(mask))
            lost = len(pairs.arm_diverged)
            group = f"{runs.name} {mask.label} against {focus.label.partition('-')[2]}"
            for name, measure, region in measures:
                finding = settle(
                    claim,
                    f"{group}, {name}",
                    pairs.values(measure),
                    region,
                    "points",
                    _spread_in_words(pairs) if name == "|rUA|" else "",
                    diverged_in_words(pairs.arm_diverged, "AND"),
                    diverged_in_words(pairs.base_diverged, "FOCUS"),
                    failures=len(pairs.base_diverged),
                )
                if not finding.n and lost and not pairs.base_diverged:
                    status: ClaimStatus = "held" if lost >= MIN_SEEDS else "inconclusive"
                    finding = ClaimFinding(claim, finding.group, status, detail=finding.detail)
                yield finding


@dataclass(frozen=True)
class LosesEarly:
    """TA after ``epoch`` epochs is below that of the initial model."""

    methods: tuple[str, ...] = ("mask-small-gradients", "conv-transpose")
    epoch: int = 1

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        for runs, arm in each_arm(tasks, self.methods, ("none",)):
            values, diverged, finals = [], [], []
            for seed, record in sorted(runs.at_main(arm).items()):
                start, early = record.value("ta", 0), record.value("ta", self.epoch)
                if start is not None and early is not None:
                    values.append(early - start)
                    finals.append((record.value("ta") or 0.0) - start)
                elif record.diverged:
                    diverged.append(seed)
            yield settle(
                claim,
                group_name(runs, arm),
                values,
                Region(high=0.0),
                "points",
                f"{np.mean(finals):+.2f} at the last epoch" if finals else "",
                diverged_in_words(diverged),
                failures=len(diverged),
            )


def _spread_in_words(pairs: Pairs) -> str:
    last = [(a.value("rua"), b.value("rua")) for a, b in pairs.both.values()]
    measured = [(a, b) for a, b in last if a is not None and b is not None]
    if len(measured) < 2:
        return ""
    focus, mask = np.std(np.array(measured), axis=0, ddof=1)
    return f"std of rUA over seeds: AND {mask:.2f}, FOCUS {focus:.2f}"


AND_UNSTABLE = Claim(
    "and-unstable",
    "NGPlus-AND is unstable where NGPlus-FOCUS is not: higher |rUA|, lower TA, larger swings.",
    "Table 1, Fig. 5 and Sect. 6.3.1",
    Unstable(),
)
EARLY_TA = Claim(
    "early-ta",
    "MSG and CT lose TA at first: after one epoch it is below the initial model's.",
    "Fig. 8 and 9, Sect. 6.3.4",
    LosesEarly(),
)
