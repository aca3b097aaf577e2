"""A membership attack: a score for every example, higher for likelier members."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from expunge.evaluation import MemberScores, Predictions, Views


@dataclass(frozen=True)
class TopTwo:
    """The difference between the two largest logits.

    Use it as an example of an attack; it needs no labels.
    """

    def score(
        self, target: Views, references: Sequence[Views] = (), *, seed: int = 0
    ) -> MemberScores:
        """Score the forget and test examples under the model that is attacked."""
        return MemberScores(_difference(target.forget), _difference(target.test))


def _difference(predictions: Predictions) -> np.ndarray:
    first, second = predictions.logits.double().topk(2, dim=1).values.unbind(dim=1)
    difference: np.ndarray = (first - second).numpy()
    return difference
