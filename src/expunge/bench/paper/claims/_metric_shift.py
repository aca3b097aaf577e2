"""Claims on how an add-on shifts a metric, on unstable runs, and on the first epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from expunge.bench._results import PAPER_METHODS, BenchResult, BenchRun
from expunge.bench._tasks import TaskResults
from expunge.bench.paper.claims._base import (
    MIN_SEEDS,
    Claim,
    ClaimFinding,
    OfEachRun,
    Pairs,
    Region,
    each_variant,
    settle,
)
from expunge.evaluation import METRICS

ATTACKS = tuple(
    f"mia_{name}" for name in ("correctness", "confidence", "logits", "entropy", "modified_entropy")
)
EXCEPTED = (("neg-grad-plus", "and"),)
"""NGPlus-AND, "which does not perform well": the exception that the paper itself makes."""
MIN_REMEMBERED_RUA = 1.0
"""|rUA| that nobody would call forgotten."""
MAX_TA_COST = 1.6
"""Points of TA: the largest price of FOCUS and PROB in the paper's tables, NGPlus-PROB's:
94.75 - 93.18 = 1.57. (FOCUS: 1.06 on SRL, 1.33 on NGPlus, 0.24 on SCRUB.)"""
SALUN_MARGIN = 1.0
"""Points. The largest moves of SalUn in the paper's tables are 0.46 in rUA and 0.22 in TA."""


def at_common_epoch(
    metric: str, base: BenchResult, other: BenchResult
) -> tuple[float | None, float | None] | None:
    """A metric of both runs at the last epoch at which both were evaluated."""
    shared = {row["epoch"] for row in base.evaluated} & {row["epoch"] for row in other.evaluated}
    if not shared:
        return None
    return base.value(metric, max(shared)), other.value(metric, max(shared))


def change(metric: str, base: BenchResult, other: BenchResult) -> float | None:
    """The other's metric minus the base's, at the last epoch of both; to the digits of a result."""
    first, second = at_common_epoch(metric, base, other) or (None, None)
    return None if first is None or second is None else round(second - first, 5)


@dataclass(frozen=True)
class Shift:
    """The metric of method and add-on minus that of the method alone lies in a region.

    ``abs_rua`` is the distance of each seed's rUA from zero; the detail also has that of their
    mean, which the paper's tables print: it is smaller where seeds lie on both sides of zero.
    """

    addons: tuple[str, ...]
    metrics: tuple[str, ...]
    region: Region

    def __call__(self, claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
        for runs, variant, name in each_variant(tasks, PAPER_METHODS, self.addons):
            pairs = Pairs.with_addon(runs, variant)
            excepted = (variant.method, variant.addon) in EXCEPTED
            for metric in self.metrics:
                about = METRICS[metric]
                yield settle(
                    claim,
                    f"{name}, {about.label}" if len(self.metrics) > 1 else name,
                    pairs.values(partial(change, metric)),
                    self.region,
                    "points" if about.unit in ("%", "points") else "share",
                    _means_in_words(pairs, metric),
                    pairs.remark,
                    "an exception that the paper itself makes" if excepted else "",
                    failures=len(pairs.other_diverged),
                )


def _means_in_words(pairs: Pairs, metric: str) -> str:
    """``TA 92.77 → 91.71, ideal 92.53``: what the difference is made of."""
    ends = [at_common_epoch(metric, *pair) or (None, None) for pair in pairs.both.values()]
    before = [base for base, _ in ends if base is not None]
    after = [other for _, other in ends if other is not None]
    if not before or not after:
        return ""
    first, second = np.mean(before), np.mean(after)
    if metric == "abs_rua":
        signed = [at_common_epoch("rua", *pair) or (0.0, 0.0) for pair in pairs.both.values()]
        base, other = np.abs(np.mean(np.array(signed, dtype=float), axis=0))
        text = f"mean |rUA| {first:.2f} → {second:.2f}, |mean rUA| {base:.2f} → {other:.2f}"
        left = f"; {second:.1f} points from the ideal model are left"  # lower is not low
        return text + (left if second > MIN_REMEMBERED_RUA else "")
    ideals = [v for _, other in pairs.both.values() if (v := _ideal(other, metric)) is not None]
    ideal = f", ideal {np.mean(ideals):.2f}" if ideals else ""
    return f"{METRICS[metric].label} {first:.2f} → {second:.2f}{ideal}"


def _ideal(result: BenchResult, metric: str) -> float | None:
    value, gap = result.value(metric), result.value(f"gap_{metric}")
    return None if value is None or gap is None else value - gap


def swing(result: BenchResult) -> float | None:
    """Highest minus lowest rUA over the evaluated epochs except the initial model, in points."""
    values = [row["rua"] for row in result.evaluated if row["epoch"] > 0 and "rua" in row]
    return float(max(values) - min(values)) if len(values) > 1 else None


def swings_more(focus: BenchResult, mask: BenchResult) -> float | None:
    """The mask's swing minus FOCUS's."""
    first, second = swing(focus), swing(mask)
    return None if first is None or second is None else round(second - first, 5)


UNSTABLE: tuple[tuple[str, Callable[[BenchResult, BenchResult], float | None], Region], ...] = (
    ("|rUA|", partial(change, "abs_rua"), Region(low=0.0)),
    ("TA", partial(change, "ta"), Region(high=0.0)),
    ("swing of rUA", swings_more, Region(low=0.0)),
)
"""What AND should have: a higher |rUA| and a lower TA at the last epoch, larger swings over all."""


def unstable(claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
    """AND against FOCUS on NGPlus, by each of :data:`UNSTABLE`; diverged AND runs support it."""
    for runs, focus, _ in each_variant(tasks, ("neg-grad-plus",), ("focus",)):
        mask = BenchRun(focus.method, "and")
        pairs = Pairs.of(runs.at_main(focus), runs.at_main(mask), ("FOCUS", "AND"))
        lost = len(pairs.other_diverged)
        group = f"{runs.name} {mask.label} against {focus.label.partition('-')[2]}"
        for name, measure, region in UNSTABLE:
            finding = settle(
                claim,
                f"{group}, {name}",
                pairs.values(measure),
                region,
                "points",
                pairs.remark,
                failures=len(pairs.base_diverged),
            )
            if not finding.n and lost and not pairs.base_diverged:
                finding = replace(finding, status="held" if lost >= MIN_SEEDS else "inconclusive")
            yield finding


def other_shares(claim: Claim, tasks: Sequence[TaskResults]) -> Iterator[ClaimFinding]:
    """MSG with another share of weights against MSG with its 30 %, by |rUA|."""
    usual = BenchRun("mask-small-gradients")
    for runs in tasks:
        for variant in runs.main_variants:
            if variant.method.startswith(f"{usual.method}("):
                names = (usual.label, variant.label)
                pairs = Pairs.of(runs.at_main(usual), runs.at_main(variant), names)
                values = pairs.values(partial(change, "abs_rua"))
                words = (_means_in_words(pairs, name) for name in ("abs_rua", "ta"))
                group = f"{runs.name} {variant.label}"
                yield settle(claim, group, values, _LOWER, "points", *words, pairs.remark)


def ta_gained(result: BenchResult, epoch: int | None) -> float | None:
    """TA at an epoch (default: the last) minus that of the initial model."""
    start, then = result.value("ta", 0), result.value("ta", epoch)
    return None if start is None or then is None else then - start


def _last_in_words(results: list[BenchResult]) -> str:
    gains = [ta_gained(result, None) or 0.0 for result in results]
    return f"{np.mean(gains):+.2f} at the last epoch"


_RUA = "lowers |rUA| compared with the method alone at the last epoch (SRL, NGPlus, SCRUB)."
_WHERE, _LOWER = "Tables 1 and 2, Sect. 6.3", Region(high=0.0)
FOCUS_RUA = Claim("focus-rua", f"FOCUS {_RUA}", _WHERE, Shift(("focus",), ("abs_rua",), _LOWER))
PROB_RUA = Claim("prob-rua", f"PROB {_RUA}", _WHERE, Shift(("prob",), ("abs_rua",), _LOWER))
AND_RUA = Claim("and-rua", f"AND {_RUA}", _WHERE, Shift(("and",), ("abs_rua",), _LOWER))
FOCUS_MIA = Claim(
    "focus-mia",
    "FOCUS lowers the score of the entropy attack compared with the method alone.",
    "Table 2, Fig. 6 and Sect. 6.3.2",
    Shift(("focus",), ("mia_entropy",), _LOWER),
)
ALL_MIA = Claim(
    "all-mia",
    "FOCUS, PROB and AND lower the score of each of the five attacks compared with the method "
    "alone.",
    'Sect. 6.3.3: "our add-ons always lower the initial unlearning method\'s score"',
    Shift(("focus", "prob", "and"), ATTACKS, _LOWER),
)
TA_COST = Claim(
    "ta-cost",
    f"The add-ons cost little TA: at most {MAX_TA_COST} points.",
    "Sect. 6.3.1 and 6.3.2; the margin is the largest cost of FOCUS and PROB in Tables 1 and 2",
    Shift(("focus", "prob", "and"), ("ta",), Region(low=-MAX_TA_COST)),
)
SALUN_LITTLE = Claim(
    "salun-little",
    f"SalUn hardly changes |rUA| and TA: by less than {SALUN_MARGIN:g} point.",
    "Tables 1 and 2; the margin is ours",
    Shift(("saliency",), ("abs_rua", "ta"), Region(-SALUN_MARGIN, SALUN_MARGIN)),
)
AND_UNSTABLE = Claim(
    "and-unstable",
    "NGPlus-AND is unstable where NGPlus-FOCUS is not: higher |rUA|, lower TA, larger swings.",
    "Table 1 and Sect. 6.3.1, which sees the same on SRL in Fig. 5",
    unstable,
)
EARLY_TA = Claim(
    "early-ta",
    "MSG and CT lose TA at first: after one epoch it is below the initial model's.",
    "Fig. 8 and 9, Sect. 6.3.4",
    OfEachRun(
        partial(ta_gained, epoch=1),
        _last_in_words,
        Region(high=0.0),
        "points",
        methods=("mask-small-gradients", "conv-transpose"),
    ),
)
MSG_THRESHOLD = Claim(
    "msg-threshold",
    "MSG needs another threshold than the 30 % of its authors: with another share of the weights "
    "it ends nearer to the ideal model in |rUA|.",
    'Sect. 6.3.4: "needs a more careful setting of the threshold"',
    other_shares,
)
