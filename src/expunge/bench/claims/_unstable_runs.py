"""Claims on runs that go astray: AND on NGPlus, and the first epochs of MSG and CT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from expunge.bench._records import Record
from expunge.bench.claims._arms import Arm
from expunge.bench.claims._base import Claim, Finding, Status
from expunge.bench.claims._claim_runs import Runs
from expunge.bench.claims._metric_shift import change
from expunge.bench.claims._paired_runs import Pairs, diverged, settle
from expunge.bench.claims._statistics import LEAST, Region

Measure = Callable[[Record, Record], float | None]


def swing(record: Record) -> float | None:
    """Highest minus lowest rUA over the epochs evaluated, the initial model apart, in points."""
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

    def __call__(self, claim: Claim, runs: Runs) -> Iterator[Finding]:
        measures: list[tuple[str, Measure, Region]] = [
            ("|rUA|", partial(change, "abs_rua"), Region(low=0.0)),
            ("TA", partial(change, "ta"), Region(high=0.0)),
            ("swing of rUA", swings_more, Region(low=0.0)),
        ]
        for situation, focus in runs.each(self.methods, ("focus",)):
            mask = Arm(focus.method, "and")
            pairs = Pairs.of(runs.at_main(situation, focus), runs.at_main(situation, mask))
            lost = len(pairs.arm_diverged)
            group = f"{runs.name(situation)} {mask.label} against {focus.label.partition('-')[2]}"
            for name, measure, region in measures:
                found = settle(
                    claim,
                    f"{group}, {name}",
                    pairs.values(measure),
                    region,
                    "points",
                    _spread(pairs) if name == "|rUA|" else "",
                    f"AND {diverged(pairs.arm_diverged)}" if lost else "",
                    f"FOCUS {diverged(pairs.base_diverged)}" if pairs.base_diverged else "",
                    failures=len(pairs.base_diverged),
                )
                if not found.n and lost and not pairs.base_diverged:
                    status: Status = "held" if lost >= LEAST else "inconclusive"
                    found = Finding(claim, found.group, status, detail=found.detail)
                yield found


@dataclass(frozen=True)
class LosesEarly:
    """TA after ``epoch`` epochs is below that of the initial model."""

    methods: tuple[str, ...] = ("mask-small-gradients", "conv-transpose")
    epoch: int = 1

    def __call__(self, claim: Claim, runs: Runs) -> Iterator[Finding]:
        for situation, arm in runs.each(self.methods, ("none",)):
            values, gone, finals = [], [], []
            for seed, record in sorted(runs.at_main(situation, arm).items()):
                start, early = record.value("ta", 0), record.value("ta", self.epoch)
                if start is not None and early is not None:
                    values.append(early - start)
                    finals.append((record.value("ta") or 0.0) - start)
                elif record.diverged:
                    gone.append(seed)
            yield settle(
                claim,
                runs.group(situation, arm),
                values,
                Region(high=0.0),
                "points",
                f"{np.mean(finals):+.2f} at the last epoch" if finals else "",
                diverged(gone) if gone else "",
                failures=len(gone),
            )


def _spread(pairs: Pairs) -> str:
    last = [(a.value("rua"), b.value("rua")) for a, b in pairs.both.values()]
    known = [(a, b) for a, b in last if a is not None and b is not None]
    if len(known) < 2:
        return ""
    focus, mask = np.std(np.array(known), axis=0, ddof=1)
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
