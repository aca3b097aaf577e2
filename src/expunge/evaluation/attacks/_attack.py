"""One interface for every membership attack: a score an example, and a report from the scores.

The question is always the same: can the forgotten examples be told from examples the model never
saw? Positives are the forget set, negatives the test set. An ideal model gives an AUC of one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from expunge._registry import Registry
from expunge.evaluation._views import Views
from expunge.evaluation.attacks._report import AttackReport, report
from expunge.evaluation.attacks._report import MemberScores as MemberScores


@runtime_checkable
class Attack(Protocol):
    """A membership attack: a frozen dataclass whose fields are its configuration."""

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


ATTACKS: Registry[Attack] = Registry("attack")


def run_attack(
    attack: Attack | str,
    target: Views,
    references: Sequence[Views] = (),
    *,
    name: str | None = None,
    level: float = 0.95,
    resamples: int = 1000,
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
    part = ATTACKS[attack] if isinstance(attack, str) else attack
    found = part.score(target, references, seed=seed)
    label = name or next((key for key in ATTACKS if ATTACKS[key] == part), type(part).__name__)
    return report(label, found, level=level, resamples=resamples, seed=seed)
