"""Over-forgetting: forgotten data that stand out because the model avoids them (Streisand effect).

A model that never saw the forget set treats it like any unseen data. One that does worse on it, or
is less sure of it, tells an observer what was removed just as one that remembers does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from expunge._kinds import Count, Fraction, check_arguments
from expunge.engine import Predictions
from expunge.evaluation._statistics import Estimate, Sample, auc
from expunge.evaluation._views import Views, check_same_labels
from expunge.evaluation.attacks._features import entropy
from expunge.evaluation.attacks._report import AttackReport

Kind = Literal["attack below chance", "rUA negative", "entropy too high", "entropy too low"]
FAR = 0.05
"""Distance from one half beyond which the entropy statistic's interval counts as a finding."""


@dataclass(frozen=True)
class Finding:
    """A sign that reveals the forget set: its kind, its size, and a sentence about it."""

    kind: Kind
    estimate: Estimate
    words: str

    def __str__(self) -> str:
        return self.words


def over_forgetting(
    views: Views,
    *,
    ideal: Predictions | None = None,
    reports: Sequence[AttackReport] = (),
    level: Fraction = 0.95,
    resamples: Count = 1000,
    seed: int = 0,
) -> list[Finding]:
    """Signs, other than memory, that reveal the forget set; empty if there are none.

    - an attack whose AUC interval lies below one half;
    - rUA (27) whose interval lies below zero (with ``ideal``, its predictions on the forget set);
    - P(entropy of a forget example > of a test example) whose interval lies more than 0.05 from one
      half. *Too high* is over-forgetting; *too low* means the model is surer of the forgotten data
      than of unseen ones.

    Where the forget set is of one class, give a ``views.test`` of that class.
    """
    check_arguments(over_forgetting, locals())
    options = {"level": level, "resamples": resamples, "seed": seed}
    findings = [
        Finding(
            "attack below chance",
            report.auc,
            f"The {report.name} attack scores forgotten data below unseen data (AUC {report.auc}, "
            "chance is 0.5): they stand out by how little the model knows them.",
        )
        for report in reports
        if report.verdict == "over-forgotten"
    ]
    if ideal is not None:
        gap = relative_accuracy(views.forget, ideal, **options)  # type: ignore[arg-type]
        if gap.high < 0.0:
            findings.append(
                Finding(
                    "rUA negative",
                    gap,
                    f"The model is right on the forget set {-gap.value:.2f} points less often "
                    f"than the ideal model (rUA in [{gap.low:.2f}, {gap.high:.2f}]): it was pushed "
                    "away from what it would know anyway.",
                )
            )
    return findings + _entropies(entropy_shift(views, **options))  # type: ignore[arg-type]


def relative_accuracy(
    model: Predictions, ideal: Predictions, *, level: float, resamples: int, seed: int
) -> Estimate:
    """rUA in points with a bootstrap interval over the examples, which both models share."""
    check_same_labels(ideal, model)
    right = [(part.classes == part.labels).numpy().astype(np.int64) for part in (model, ideal)]
    change = right[0] - right[1]
    size = len(change)
    shares = np.array([(change == step).mean() for step in (-1, 0, 1)])
    draws = np.random.default_rng(seed).multinomial(size, shares, resamples)
    tail = (1.0 - level) / 2.0
    low, high = np.quantile(100.0 * (draws[:, 2] - draws[:, 0]) / size, [tail, 1.0 - tail])
    if size == 1:
        low, high = -100.0, 100.0
    return Estimate(100.0 * float(change.mean()), float(low), float(high))


def entropy_shift(views: Views, *, level: float, resamples: int, seed: int) -> Estimate:
    """P(entropy of a forget example > of a test example), ties counted half; 0.5 is no shift."""
    sample = Sample.of(entropy(views.forget)[:, 0], entropy(views.test)[:, 0])
    return sample.estimates([auc], level=level, resamples=resamples, seed=seed)[0]


def _entropies(shift: Estimate) -> list[Finding]:
    if shift.low > 0.5 + FAR:
        words = "less sure of forgotten data than of unseen data"
        return [Finding("entropy too high", shift, _describe(words, shift))]
    if shift.high < 0.5 - FAR:
        words = "surer of forgotten data than of unseen data"
        return [Finding("entropy too low", shift, _describe(words, shift))]
    return []


def _describe(words: str, shift: Estimate) -> str:
    return (
        f"The model is {words}: a forgotten example has the higher entropy with probability "
        f"{shift}, where 0.5 is expected."
    )
