"""The interface of every membership attack, a score per example, and one call that runs any.

An attack tries to distinguish the forgotten examples from examples that the model never
saw. Positives are the forget set, negatives the test set. An ideal model gives an AUC of one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from expunge._kinds import Count, Fraction, check_arguments
from expunge.evaluation._views import Views
from expunge.evaluation.attacks._registry import ATTACKS
from expunge.evaluation.attacks._report import AttackReport, MemberScores, make_report


@runtime_checkable
class Attack(Protocol):
    """A membership attack: a frozen dataclass whose fields are its configuration.

    One with an attribute ``needs_references`` that is true is left out of an audit without any.
    """

    def score(
        self,
        target: Views,
        references: Sequence[Views] = (),
        *,
        splits: Sequence[str] = ("forget", "test"),
        seed: int = 0,
    ) -> MemberScores:
        """Score the examples of ``splits`` under ``target``, the model that is attacked.

        ``references`` are other models' predictions on the same examples, in the same order.
        """


def run_attack(
    attack: Attack | str,
    target: Views,
    references: Sequence[Views] = (),
    *,
    name: str | None = None,
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
    label = name or next((key for key, known in ATTACKS.items() if known == part), None)
    return make_report(
        label or type(part).__name__, member_scores, level=level, resamples=resamples, seed=seed
    )
