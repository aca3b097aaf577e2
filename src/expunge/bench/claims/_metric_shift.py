"""Claims on how an add-on shifts a metric of the method it is plugged into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import CONSTRAINED_METHODS, Arm, TaskRuns
from expunge.bench.claims._base import Claim, ClaimFinding, each_arm, group_name
from expunge.bench.claims._statistics import Pairs, Region, settle
from expunge.evaluation import METRICS

EXCEPTED = (("neg-grad-plus", "and"),)
"""NGPlus-AND, "which does not perform well": the exception that the paper itself makes."""


MUCH = 1.0
"""|rUA| that nobody would call forgotten."""


def last_common_epoch(base: Record, arm: Record) -> int | None:
    """The last epoch at which both runs were evaluated."""
    shared = {row["epoch"] for row in base.evaluated} & {row["epoch"] for row in arm.evaluated}
    return max(shared, default=None)


def change(metric: str, base: Record, arm: Record) -> float | None:
    """The arm's metric minus the base's, at the last epoch of both; to the digits of a record."""
    epoch = last_common_epoch(base, arm)
    if epoch is None:
        return None
    first, second = base.value(metric, epoch), arm.value(metric, epoch)
    return None if first is None or second is None else round(second - first, 5)


@dataclass(frozen=True)
class Shift:
    """The metric of method and add-on minus that of the method alone lies in a region."""

    addons: tuple[str, ...]
    metrics: tuple[str, ...]
    methods: tuple[str, ...] = CONSTRAINED_METHODS

    @property
    def region(self) -> Region:
        """Where the difference has to lie for the claim to hold."""
        raise TypeError(f"{type(self).__name__} should define `region`.")

    def __call__(self, claim: Claim, tasks: Sequence[TaskRuns]) -> Iterator[ClaimFinding]:
        for runs, arm in each_arm(tasks, self.methods, self.addons):
            base = runs.at_main(Arm(arm.method))
            pairs = Pairs.of(base, runs.at_main(arm))
            excepted = (arm.method, arm.addon) in EXCEPTED
            for metric in self.metrics:
                group = group_name(runs, arm)
                if len(self.metrics) > 1:
                    group += f", {_label(metric)}"
                yield settle(
                    claim,
                    group,
                    pairs.values(partial(change, metric)),
                    self.region,
                    "points" if _percent(metric) else "share",
                    _means_in_words(pairs, metric),
                    _what_is_left(pairs, metric),
                    pairs.remark,
                    "an exception that the paper itself makes" if excepted else "",
                    failures=len(pairs.arm_diverged),
                )


@dataclass(frozen=True)
class Lowers(Shift):
    """The add-on lowers a metric: the difference is below zero."""

    @property
    def region(self) -> Region:
        return Region(high=0.0)


@dataclass(frozen=True)
class Costs(Shift):
    """The add-on takes at most ``most`` points from a metric.

    1.6 points is the largest price of FOCUS and PROB in the paper's tables, NGPlus-PROB's:
    94.75 - 93.18 = 1.57. (FOCUS: 1.06 on SRL, 1.33 on NGPlus, 0.24 on SCRUB.)
    """

    most: float = 1.6

    @property
    def region(self) -> Region:
        return Region(low=-self.most)


@dataclass(frozen=True)
class Keeps(Shift):
    """The add-on moves a metric by less than ``margin`` points, either way.

    The largest moves of SalUn in the paper's tables are 0.46 in rUA and 0.22 in TA, on NGPlus.
    """

    margin: float = 1.0

    @property
    def region(self) -> Region:
        return Region(-self.margin, self.margin)


def _label(metric: str) -> str:
    return "|rUA|" if metric == "abs_rua" else METRICS[metric].label


def _percent(metric: str) -> bool:
    return metric == "abs_rua" or METRICS[metric].unit in ("%", "points")


def _means_in_words(pairs: Pairs, metric: str) -> str:
    """``4.62 → 0.41; ideal 0.84``: what the difference is made of."""
    rows = []
    for base, arm in pairs.both.values():
        epoch = last_common_epoch(base, arm)
        if epoch is not None:
            rows.append((base.value(metric, epoch), arm.value(metric, epoch), _ideal(arm, metric)))
    columns = [[v for v in column if v is not None] for column in zip(*rows, strict=True)]
    if not columns or not columns[0] or not columns[1]:
        return ""
    base_mean, arm_mean = np.mean(columns[0]), np.mean(columns[1])
    ideal = f", ideal {np.mean(columns[2]):.2f}" if columns[2] else ""
    return f"{_label(metric)} {base_mean:.2f} → {arm_mean:.2f}{ideal}"


def _what_is_left(pairs: Pairs, metric: str) -> str:
    """That lower is not low: what an add-on leaves of |rUA|, where that is much."""
    if metric != "abs_rua":
        return ""
    ends = []
    for base, arm in pairs.both.values():
        epoch = last_common_epoch(base, arm)
        value = None if epoch is None else arm.value(metric, epoch)
        ends += [] if value is None else [value]
    left = float(np.mean(ends)) if ends else 0.0
    return f"{left:.1f} points from the ideal model are left" if left > MUCH else ""


def _ideal(record: Record, metric: str) -> float | None:
    value, gap = record.value(metric), record.value(f"gap_{metric}")
    return None if value is None or gap is None else value - gap


_RUA = "lowers |rUA| compared with the method alone at the last epoch (SRL, NGPlus, SCRUB)."
_WHERE = "Tables 1 and 2, Sect. 6.3"
FOCUS_RUA = Claim("focus-rua", f"FOCUS {_RUA}", _WHERE, Lowers(("focus",), ("abs_rua",)))
PROB_RUA = Claim("prob-rua", f"PROB {_RUA}", _WHERE, Lowers(("prob",), ("abs_rua",)))
AND_RUA = Claim("and-rua", f"AND {_RUA}", _WHERE, Lowers(("and",), ("abs_rua",)))
FOCUS_MIA = Claim(
    "focus-mia",
    "FOCUS lowers the score of the entropy attack compared with the method alone.",
    "Table 2, Fig. 6 and Sect. 6.3.2",
    Lowers(("focus",), ("mia_entropy",)),
)
TA_COST = Claim(
    "ta-cost",
    f"The add-ons cost little TA: at most {Costs.most} points.",
    "Sect. 6.3.1 and 6.3.2; the margin is the largest cost of FOCUS and PROB in Tables 1 and 2",
    Costs(("focus", "prob", "and"), ("ta",)),
)
SALUN_LITTLE = Claim(
    "salun-little",
    f"SalUn hardly changes |rUA| and TA: by less than {Keeps.margin:g} point.",
    "Tables 1 and 2; the margin is ours",
    Keeps(("saliency",), ("abs_rua", "ta")),
)
