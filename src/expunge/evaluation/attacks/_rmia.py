"""RMIA: membership by how much surer of an example the target is than reference models are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge._kinds import Range, check_fields
from expunge.engine import Predictions
from expunge.evaluation._views import Views
from expunge.evaluation.attacks._attack import MemberScores
from expunge.evaluation.attacks._features import loss
from expunge.evaluation.attacks._population import unseen


@dataclass(frozen=True)
class RMIA:
    """Robust membership inference with a few reference models (1 to 4 are enough).

    With p_θ(x) the probability of the label of x and p̄(x) its mean over the reference models, none
    of which has seen the examples in question (the offline form),

        p(x) = ½ ((1 + a) p̄(x) + (1 − a))            what a model picked at random would say,
        r(x) = p_θ(x) / p(x),
        score(x) = share of the population z with r(x) / r(z) ≥ γ,   in [0, 1].

    ``a`` is how far the models that saw x are pulled to 1: p_in(x) ≈ a p̄(x) + 1 − a. The authors
    take 0.3 on CIFAR-10, and γ = 2. The population z are unseen by the target and the references.

    References are models trained without the forget set: the ideal model, or models trained on
    other parts of the same data. The population is the validation set if there is one, else a
    random half of the test set, and the other half is scored.

    Use it where one to four models can be trained without the forget set. It corrects for how hard
    each example is.

    Reference: S. Zarifzadeh, P. Liu, R. Shokri, *Low-Cost High-Power Membership Inference Attacks*,
    ICML 2024.

    Args:
        a: in [0, 1]; see above.
        gamma: how many times surer than of z, at least 1.
    """

    needs_references: ClassVar[bool] = True

    a: Annotated[float, Range(0, 1, "[]")] = 0.3
    gamma: Annotated[float, Range(1, ends="[)")] = 2.0

    def __post_init__(self) -> None:
        check_fields(self)

    def score(
        self, target: Views, references: Sequence[Views] = (), *, seed: int = 0
    ) -> MemberScores:
        """See :class:`~expunge.evaluation.Attack`; at least one reference is needed."""
        if not references:
            raise InvalidInput("RMIA needs 1 to 4 reference models. (got none)")
        models = (target, *references)
        unseen_by_all = [unseen(model, seed) for model in models]
        population = np.sort(self._ratios([z for z, _ in unseen_by_all]))

        def shares(predictions: Sequence[Predictions]) -> Array:
            # r(x) / r(z) ≥ γ  ⇔  r(z) ≤ r(x) / γ
            ratios = self._ratios(predictions)
            return np.searchsorted(population, ratios / self.gamma, side="right") / len(population)

        return MemberScores(
            shares([model.forget for model in models]), shares([test for _, test in unseen_by_all])
        )

    def _ratios(self, models: Sequence[Predictions]) -> Array:
        labels = models[0].labels
        if not all(torch.equal(part.labels, labels) for part in models):
            raise InvalidInput(
                "Reference models should predict the same examples as the target, in their order."
            )
        of_target, *of_references = (np.exp(-loss(part)) for part in models)
        out = np.mean(of_references, axis=0)
        result: Array = of_target / np.maximum(
            0.5 * ((1.0 + self.a) * out + (1.0 - self.a)), 1e-300
        )
        return result
