"""The interface of every membership attack: a score per example.

An attack tries to distinguish the forgotten examples from examples that the model never
saw? Positives are the forget set, negatives the test set. An ideal model gives an AUC of one half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from expunge.evaluation._views import Views
from expunge.evaluation.attacks._report import MemberScores


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
