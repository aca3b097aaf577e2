"""Membership attacks: their interface, one call that runs any, and the report of their scores.

An attack tries to distinguish the forgotten examples from examples that the model never
saw. Positives are the forget set, negatives the test set. An ideal model gives an AUC of one half.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from expunge._arrays import Array
from expunge._kinds import Count, Fraction, check_arguments
from expunge.evaluation import _statistics as statistics
from expunge.evaluation._views import Views
from expunge.evaluation.attacks._registry import ATTACKS

Verdict = Literal["detected", "not detected", "over-forgotten", "inconclusive"]
FPRS = (0.01, 0.001)
WIDE = 0.05
"""An AUC interval reaching further than this from chance rules nothing out."""


@dataclass(frozen=True, eq=False)
class MemberScores:
    """A score per example, higher is more like a member; ``threshold`` is the attack's own, if any.

    ``test`` may be a part of the test set: what the attack learned from it is left out.
    """

    forget: Array
    test: Array
    threshold: float | None = None


@runtime_checkable
class Attack(Protocol):
    """A membership attack: a frozen dataclass whose fields are its configuration.

    One with an attribute ``needs_references`` that is true is left out of an audit without any.
    """

    def score(
        self, target: Views, references: Sequence[Views] = (), *, seed: int = 0
    ) -> MemberScores:
        """Score the forget and test examples under ``target``, the model that is attacked.

        ``references`` are other models' predictions on the same examples, in the same order.
        """


@dataclass(frozen=True, eq=False)
class AttackReport:
    """What an attack achieved on forget (positives) against test (negatives).

    Args:
        forget, test: a score per example, higher is more like a member.
        auc: in [0, 1], 0.5 is chance; below it the forget set looks *less* like training data than
            unseen data does.
        balanced_accuracy: in [0, 1], at the attack's own threshold; for an attack that has none, at
            the best threshold on a random half of the examples, measured on the other half.
        tpr: for each false-positive rate, the share of the forget set found; NaN where the test
            set has fewer than 1 / FPR examples.
        verdict: see :func:`judge`; ``reason`` says it in a sentence.
    """

    name: str
    forget: Array = field(repr=False)
    test: Array = field(repr=False)
    auc: statistics.Estimate
    balanced_accuracy: statistics.Estimate
    tpr: Mapping[float, statistics.Estimate]
    level: float
    verdict: Verdict
    reason: str

    def as_dict(self) -> dict[str, float]:
        """Values and interval ends by name, without those that are not defined."""
        named = {"auc": self.auc, "balanced_accuracy": self.balanced_accuracy}
        named |= {f"tpr_at_{fpr:g}": estimate for fpr, estimate in self.tpr.items()}
        flat: dict[str, float] = {}
        for name, (value, low, high) in named.items():
            flat |= {name: value, f"{name}_low": low, f"{name}_high": high}
        flat |= {"n_forget": float(len(self.forget)), "n_test": float(len(self.test))}
        return {name: value for name, value in flat.items() if not math.isnan(value)}


def run_attack(
    attack: Attack | str,
    target: Views,
    references: Sequence[Views] = (),
    *,
    level: Fraction = 0.95,
    resamples: Count = 1000,
    seed: int = 0,
) -> AttackReport:
    """Attack ``target`` and report, with bootstrap intervals at ``level``.

    >>> from expunge.evaluation import Predictions, LossThreshold
    >>> import torch
    >>> logits = torch.linspace(-3, 3, 200)[:, None] * torch.tensor([[1.0, -1.0]])
    >>> same = Predictions(logits, torch.zeros(200, dtype=torch.int64))
    >>> run_attack("loss", Views(forget=same, test=same)).auc.value
    0.5
    """
    check_arguments(run_attack, locals())
    part = ATTACKS[attack] if isinstance(attack, str) else attack
    member_scores = part.score(target, references, seed=seed)
    names = (key for key, known in ATTACKS.items() if known == part)
    name = next(names, type(part).__name__)
    return make_report(name, member_scores, level=level, resamples=resamples, seed=seed)


def make_report(
    name: str,
    member_scores: MemberScores,
    *,
    level: Fraction = 0.95,
    resamples: Count = 1000,
    seed: int = 0,
) -> AttackReport:
    """A report from the scores of an attack."""
    check_arguments(make_report, locals())
    forget, test = (
        np.asarray(part, dtype=np.float64) for part in (member_scores.forget, member_scores.test)
    )
    sample = statistics.Sample.of(forget, test)
    enough = [fpr for fpr in FPRS if len(test) >= round(1.0 / fpr)]
    area, *rates = sample.estimates(
        [statistics.auc, *(statistics.tpr_at(fpr) for fpr in enough)],
        level=level,
        resamples=resamples,
        seed=seed,
    )
    tpr = dict.fromkeys(FPRS, statistics.UNDEFINED) | dict(zip(enough, rates, strict=True))
    verdict, reason = judge(area, tpr, len(forget), len(test), constant=sample.constant)
    for fpr in FPRS:
        if fpr not in enough:
            reason += (
                f" TPR at {100 * fpr:g} % FPR needs at least {round(1.0 / fpr)} test examples; "
                f"there are {len(test)}."
            )
    balanced = _balanced(forget, test, member_scores.threshold, level, resamples, seed)
    return AttackReport(name, forget, test, area, balanced, tpr, level, verdict, reason)


def judge(
    area: statistics.Estimate,
    tpr: Mapping[float, statistics.Estimate],
    n_forget: int,
    n_test: int,
    *,
    constant: bool = False,
) -> tuple[Verdict, str]:
    """A verdict and its reason.

    - *detected*: the AUC interval lies above one half, or a TPR interval above twice its FPR;
    - *over-forgotten*: the AUC interval lies below one half (the Streisand effect);
    - *not detected*: neither, and the AUC interval stays within 0.05 of one half;
    - *inconclusive*: neither, but the interval is too wide to say, or all scores are the same.
    """
    if constant:
        return "inconclusive", "The attack gives every example the same score."
    if area.low > 0.5:
        return "detected", f"Forgotten data score above unseen data: AUC {area}."
    leaks = [(fpr, rate) for fpr, rate in tpr.items() if rate.low > 2.0 * fpr]
    if leaks:
        fpr, rate = leaks[0]
        return "detected", f"A part of the forget set stands out: TPR {rate} at FPR {fpr:g}."
    if area.high < 0.5:
        return (
            "over-forgotten",
            f"Forgotten data score below unseen data: AUC {area}. That gives them away as well.",
        )
    if max(area.high - 0.5, 0.5 - area.low) <= WIDE:
        return "not detected", f"Forgotten data score like unseen data: AUC {area}."
    return (
        "inconclusive",
        f"AUC {area}: with {n_forget} forget and {n_test} test examples the interval is too wide.",
    )


def _balanced(
    forget: Array, test: Array, threshold: float | None, level: float, resamples: int, seed: int
) -> statistics.Estimate:
    if threshold is None:
        if min(len(forget), len(test)) < 2:
            return statistics.UNDEFINED
        random = np.random.default_rng(seed)
        halves = [np.array_split(random.permutation(part), 2) for part in (forget, test)]
        threshold = _best_threshold(halves[0][0], halves[1][0])
        forget, test = halves[0][1], halves[1][1]
    sample = statistics.Sample.of(forget, test)
    rule = statistics.balanced_accuracy(sample.levels > threshold)
    return sample.estimates([rule], level=level, resamples=resamples, seed=seed)[0]


def _best_threshold(forget: Array, test: Array) -> float:
    """The lowest of the thresholds with the highest balanced accuracy, for "score > threshold"."""
    sample = statistics.Sample.of(forget, test)
    size = len(sample.levels)
    detected = np.bincount(sample.positive, minlength=size)[::-1].cumsum()[::-1] / len(forget)
    passed = np.bincount(sample.negative, minlength=size)[::-1].cumsum()[::-1] / len(test)
    best = int(np.argmax(detected - passed))
    above = sample.levels[best]
    below = sample.levels[best - 1] if best else -np.inf
    middle = 0.5 * (below + above)
    return float(middle if below < middle < above else below)
