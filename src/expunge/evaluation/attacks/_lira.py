"""LiRA and U-LiRA: one Gaussian per example and world, from shadow models.

In one world the example was seen (and, for U-LiRA, unlearned again); in the other it was never
seen. A model's confidence in the example's true label is more likely in one world than in the
other; the attack's score says which, and by how much (Carlini et al., 2022; Hayes et al., 2024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge.evaluation.attacks._attack import AttackReport, MemberScores, Verdict, make_report

if TYPE_CHECKING:
    from expunge.evaluation.attacks._shadow_models import Shadows

INCONCLUSIVE = "inconclusive with"
OWN_VARIANCE_FROM = 16
"""Shadows per world from which on each example gets its own variance."""


def scaled_confidence(logits: Tensor, labels: Tensor) -> Array:
    """``log p_y - log(1 - p_y)`` of each example: the logit-scaled confidence, near Gaussian.

    From logits [N, K] as ``z_y - logsumexp(z_j, j ≠ y)``, which neither rounds to ±∞ nor needs a
    softmax.
    """
    z = logits.double()
    of_label = z.gather(1, labels.view(-1, 1)).squeeze(1)
    others = z.scatter(1, labels.view(-1, 1), -math.inf).logsumexp(dim=1)
    return (of_label - others).numpy()


@dataclass(frozen=True)
class ShadowScores:
    """Confidences [S, N] of the shadow models, and which examples each had seen [S, N]."""

    confidence: Array
    seen: np.ndarray[Any, np.dtype[np.bool_]]

    def __post_init__(self) -> None:
        if not np.isfinite(self.confidence).all():
            raise InvalidInput("Shadow confidences should be finite.")

    def world(self, seen: bool) -> tuple[Array, Array]:
        """Mean and deviation [N] of each example in one world; few shadows share a variance."""
        mask = self.seen if seen else ~self.seen
        count = mask.sum(axis=0)
        if count.min() < 1 or count.max() < 2:
            name = "saw" if seen else "never saw"
            raise InvalidInput(
                f"U-LiRA needs every example in at least one shadow that {name} it, and two for "
                "some. Train more shadow models."
            )
        values = np.where(mask, self.confidence, 0.0)
        mean = values.sum(axis=0) / count
        squares = np.where(mask, (self.confidence - mean) ** 2, 0.0).sum(axis=0)
        if count.min() >= OWN_VARIANCE_FROM:
            variance = squares / (count - 1)
        else:
            pooled = squares.sum() / max((count - 1).sum(), 1)
            variance = np.full_like(mean, pooled)
        return mean, np.sqrt(np.maximum(variance, 1e-12))


def lira(target: Array, shadows: ShadowScores) -> Array:
    """The score of each example [N]: log N(x; μ_seen, σ_seen) - log N(x; μ_never, σ_never)."""

    def log_density(mean: Array, std: Array) -> Array:
        """Of the normal distribution, without the constant that cancels in a ratio."""
        return -0.5 * ((target - mean) / std) ** 2 - np.log(std)

    return log_density(*shadows.world(seen=True)) - log_density(*shadows.world(seen=False))


@dataclass(frozen=True, eq=False)
class ULiRA:
    """The attack on the unlearned model, and on two models for which the answer is known.

    ``initial``: the same attack, with the shadows as they were before unlearning, on the initial
    model, which has the forget set in its training data: it has to detect. ``ideal``: on the
    retrained model, which never saw it: it must not. Without both, ``verdict`` is inconclusive.
    """

    report: AttackReport
    initial: AttackReport | None
    ideal: AttackReport | None
    shadows: int

    @property
    def doubts(self) -> list[str]:
        """The reasons not to believe the attack; none if both known answers are right."""
        reasons = []
        if self.initial is None:
            reasons.append("no initial model was given to try it on")
        elif self.initial.verdict != "detected":
            reasons.append(
                f"it does not find the members of the initial model (AUC {self.initial.auc}), "
                "so finding nothing would mean nothing"
            )
        if self.ideal is None:
            reasons.append("no ideal model was given to try it on")
        elif self.ideal.verdict in ("detected", "over-forgotten"):
            reasons.append(
                f"it claims to tell the forget set from unseen data on the ideal model, which saw "
                f"neither (AUC {self.ideal.auc})"
            )
        return reasons

    @property
    def verdict(self) -> Verdict:
        """That of the report, if there is no reason to doubt it."""
        return "inconclusive" if self.doubts else self.report.verdict

    @property
    def reason(self) -> str:
        """Why this is the verdict, in a sentence."""
        if not self.doubts:
            return self.report.reason
        why = "; ".join(self.doubts)
        return f"{INCONCLUSIVE} {self.shadows} shadow models: {why}. ({self.report.reason})"


def ulira(
    shadows: Shadows,
    *,
    forgotten: int,
    unlearned: Array,
    initial: Array | None = None,
    ideal: Array | None = None,
    seed: int = 0,
) -> ULiRA:
    """Attack the unlearned model; the arrays are scaled confidences of the targets [N].

    The first ``forgotten`` targets are the forget set, the rest were never seen by any of the
    three models.
    """

    def attack(confidence: Array, worlds: ShadowScores) -> AttackReport:
        scores = lira(confidence, worlds)
        split = MemberScores(scores[:forgotten], scores[forgotten:], threshold=0.0)
        return make_report("u-lira", split, seed=seed)

    return ULiRA(
        attack(unlearned, shadows.unlearned),
        None if initial is None else attack(initial, shadows.trained),
        None if ideal is None else attack(ideal, shadows.unlearned),
        len(shadows.unlearned.confidence),
    )
