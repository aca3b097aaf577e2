"""U-LiRA as an attack with a proof: its number counts only if it tells what is known to be so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from expunge.evaluation import AttackReport, MemberScores, Verdict, report
from expunge.evaluation.attacks._lira import ShadowScores, Variant, lira
from expunge.evaluation.attacks._shadow_models import Shadows

Array = np.ndarray[Any, np.dtype[np.float64]]
INCONCLUSIVE = "inconclusive at this budget"


@dataclass(frozen=True, eq=False)
class ULiRA:
    """The attack on the unlearned model, and on two models of which the answer is known.

    ``initial``: the same attack, with the shadows as they were before unlearning, on the initial
    model, which has the forget set in its training data: it has to detect. ``ideal``: on the
    retrained model, which never saw it: it must not. Without both, ``verdict`` is inconclusive.
    """

    report: AttackReport
    initial: AttackReport | None
    ideal: AttackReport | None
    shadows: int
    variant: Variant
    verdict: Verdict
    reason: str

    @property
    def proven(self) -> bool:
        """Whether the attack showed on both known models that it can be believed."""
        return not self.doubts

    @property
    def doubts(self) -> list[str]:
        """Why it cannot."""
        return doubts(self.initial, self.ideal)


def ulira(
    shadows: Shadows,
    *,
    forgotten: int,
    unlearned: Array,
    initial: Array | None = None,
    ideal: Array | None = None,
    variant: Variant = "online",
    seed: int = 0,
) -> ULiRA:
    """Attack the unlearned model; the arrays are scaled confidences of the targets [N].

    The first ``forgotten`` targets are the forget set, the rest were never seen by any of the
    three models.
    """
    name = f"u-lira ({variant})"

    def attack(confidence: Array, worlds: ShadowScores) -> AttackReport:
        scores = lira(confidence, worlds, variant)
        threshold = 0.0 if variant == "online" else None
        split = {"forget": scores[:forgotten], "test": scores[forgotten:]}
        return report(name, MemberScores(split, threshold), seed=seed)

    found = attack(unlearned, shadows.unlearned)
    first = None if initial is None else attack(initial, shadows.trained)
    best = None if ideal is None else attack(ideal, shadows.unlearned)
    count = len(shadows.unlearned.confidence)
    why = doubts(first, best)
    if why:
        reason = f"{INCONCLUSIVE} of {count} shadow models: {'; '.join(why)}. ({found.reason})"
        return ULiRA(found, first, best, count, variant, "inconclusive", reason)
    return ULiRA(found, first, best, count, variant, found.verdict, found.reason)


def doubts(initial: AttackReport | None, ideal: AttackReport | None) -> list[str]:
    """What keeps the attack from being believed, in words."""
    found = []
    if initial is None:
        found.append("no initial model was given to try it on")
    elif initial.verdict != "detected":
        found.append(
            f"it does not find the members of the initial model (AUC {initial.auc}), "
            "so finding nothing would mean nothing"
        )
    if ideal is None:
        found.append("no ideal model was given to try it on")
    elif ideal.verdict in ("detected", "over-forgotten"):
        found.append(
            f"it claims to tell the forget set from unseen data on the ideal model, which saw "
            f"neither (AUC {ideal.auc})"
        )
    return found
