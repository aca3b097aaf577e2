"""Attacks that need no other model: the five SVCs of the paper, and the loss threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from expunge._errors import InvalidInput
from expunge.engine import Predictions
from expunge.evaluation._views import Views
from expunge.evaluation.attacks._features import loss
from expunge.evaluation.attacks._paper_attacks import decisions, sample
from expunge.evaluation.attacks._registry import FEATURES
from expunge.evaluation.attacks._report import MemberScores


@dataclass(frozen=True)
class SVCAttack:
    """The decision function of an SVC that tells retained from unseen data by one feature.

    Members to learn from are a random part of the retain set, non-members as many that the model
    never saw. These are of the validation set if there is one; else a random half of the test set,
    and only the other half is scored, since an SVC does better on what it was fitted to. The
    threshold is 0.

    Use it to compare with published numbers. It sees the forget set as a whole, so it flatters
    the model.

    Reference: the five attacks of the paper; L. Song, P. Mittal, *Systematic Evaluation of
    Privacy Risks of Machine Learning Models*, USENIX Security 2021.

    Args:
        feature: a name of :data:`~expunge.evaluation.FEATURES`.
        exact: the plain, slow fit.
    """

    feature: str = "entropy"
    exact: bool = False

    def __post_init__(self) -> None:
        FEATURES.name(self.feature)

    def score(
        self,
        target: Views,
        references: Sequence[Views] = (),
        *,
        splits: Sequence[str] = ("forget", "test"),
        seed: int = 0,
    ) -> MemberScores:
        """See :class:`~expunge.evaluation.Attack`; references are not used."""
        others, test = unseen(target, seed)
        members = sample(target.split("retain"), len(others.labels), seed)
        others = sample(others, len(members.labels), seed)
        parts = [test if name == "test" else target.split(name) for name in splits]
        decided = decisions([self.feature], members, others, parts, exact=self.exact, seed=seed)
        return MemberScores(dict(zip(splits, decided[self.feature], strict=True)), threshold=0.0)


@dataclass(frozen=True)
class LossThreshold:
    """The negative cross-entropy (Yeom et al., 2018), in nats.

    The threshold is the mean loss of the retain set, where that is given.

    Use it as the quickest check. It sees the forget set as a whole.

    Reference: S. Yeom, I. Giacomelli, M. Fredrikson, S. Jha, *Privacy Risk in Machine Learning:
    Analyzing the Connection to Overfitting*, CSF 2018.
    """

    def score(
        self,
        target: Views,
        references: Sequence[Views] = (),
        *,
        splits: Sequence[str] = ("forget", "test"),
        seed: int = 0,
    ) -> MemberScores:
        """See :class:`~expunge.evaluation.Attack`; references are not used."""
        threshold = None if target.retain is None else -float(loss(target.retain).mean())
        return MemberScores({name: -loss(target.split(name)) for name in splits}, threshold)


def unseen(target: Views, seed: int) -> tuple[Predictions, Predictions]:
    """Non-members to learn from, and the test examples left to score."""
    if target.val is not None:
        return target.val, target.test
    size = len(target.test.labels)
    if size < 2:
        raise InvalidInput(
            "An attack that learns needs a validation set or at least 2 test examples. "
            f"(got {size})"
        )
    order = np.random.default_rng(seed).permutation(size)
    return (target.test.take(np.sort(part)) for part in np.array_split(order, 2))  # type: ignore[return-value]
