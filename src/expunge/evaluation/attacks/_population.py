"""Attacks without shadow models: the five SVCs of the paper, the loss threshold, and RMIA."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
import torch

from expunge._arrays import Array
from expunge._errors import InvalidInput
from expunge._kinds import Part, Range
from expunge.engine import Predictions
from expunge.evaluation._views import Views
from expunge.evaluation.attacks._attack import MemberScores
from expunge.evaluation.attacks._features import RELEASED, absolute_error, loss
from expunge.evaluation.attacks._registry import FEATURES, PAPER_FIVE
from expunge.evaluation.attacks._svc import fit_svc


def member_shares(
    views: Views,
    features: Sequence[str] = PAPER_FIVE,
    *,
    seed: int = 0,
    released: bool = False,
) -> dict[str, float]:
    """MIA (4): the share of the forget set that each attack takes for members, in [0, 1].

    Members to learn from are a random part of the retain set, as large as the test set; non-members
    are the test set. Where the retain set is the smaller, non-members are as many of the test set:
    with unequal sides an SVC would assign everything to the larger. One half means that the rule
    cannot tell.

    Deviation: the paper reads "the lower, the better". A share below the ideal model's is as
    telling as one above, so tables and reports compare it with the ideal's. Two of the features
    are not those of the paper's released code: ``released`` takes its.
    """
    members = sample(views.split("retain"), len(views.test.labels), seed)
    others = sample(views.test, len(members.labels), seed)
    decided = decisions(features, members, others, [views.forget], seed=seed, released=released)
    return {name: float((values[0] > 0).mean()) for name, values in decided.items()}


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
    """

    feature: str = "entropy"

    def __post_init__(self) -> None:
        FEATURES.name(self.feature)

    def score(
        self, target: Views, references: Sequence[Views] = (), *, seed: int = 0
    ) -> MemberScores:
        """See :class:`~expunge.evaluation.Attack`; references are not used."""
        others, test = split_nonmembers(target, seed)
        members = sample(target.split("retain"), len(others.labels), seed)
        others = sample(others, len(members.labels), seed)
        targets = [target.forget, test]
        decided = decisions([self.feature], members, others, targets, seed=seed)[self.feature]
        return MemberScores(decided[0], decided[1], threshold=0.0)


@dataclass(frozen=True)
class LossThreshold:
    """The negative cross-entropy (Yeom et al., 2018), in nats.

    The threshold is the mean loss of the retain set, where that is given.

    Use it as the quickest check. It sees the forget set as a whole.

    Reference: S. Yeom, I. Giacomelli, M. Fredrikson, S. Jha, *Privacy Risk in Machine Learning:
    Analyzing the Connection to Overfitting*, CSF 2018.
    """

    def score(
        self, target: Views, references: Sequence[Views] = (), *, seed: int = 0
    ) -> MemberScores:
        """See :class:`~expunge.evaluation.Attack`; references are not used."""
        threshold = None if target.retain is None else -float(loss(target.retain).mean())
        return MemberScores(-loss(target.forget), -loss(target.test), threshold)


@dataclass(frozen=True)
class RMIA(Part):
    """Robust membership inference with a few reference models (1 to 4 are enough).

    With p_θ(x) the probability of the label of x and p̄(x) its mean over the reference models, none
    of which has seen the examples in question (the offline form),

        p(x) = ½ ((1 + a) p̄(x) + (1 − a))            what a model picked at random would say,
        r(x) = p_θ(x) / p(x),
        score(x) = share of the population z with r(x) / r(z) ≥ γ,   in [0, 1].

    ``a`` is how far the models that saw x are pulled to 1: p_in(x) ≈ a p̄(x) + 1 − a. The authors
    take 0.3 on CIFAR-10, and γ = 2. The population z, unseen by all, is the validation set if there
    is one, else a random half of the test set, and the other half is scored.

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

    def score(
        self, target: Views, references: Sequence[Views] = (), *, seed: int = 0
    ) -> MemberScores:
        """See :class:`~expunge.evaluation.Attack`; at least one reference is needed."""
        if not references:
            raise InvalidInput("RMIA needs 1 to 4 reference models. (got none)")
        models = (target, *references)
        nonmembers = [split_nonmembers(model, seed) for model in models]
        population = np.sort(self._ratios([z for z, _ in nonmembers]))

        def shares(predictions: Sequence[Predictions]) -> Array:
            # r(x) / r(z) ≥ γ  ⇔  r(z) ≤ r(x) / γ
            ratios = self._ratios(predictions)
            return np.searchsorted(population, ratios / self.gamma, side="right") / len(population)

        return MemberScores(
            shares([model.forget for model in models]),
            shares([test for _, test in nonmembers]),
        )

    def _ratios(self, models: Sequence[Predictions]) -> Array:
        labels = models[0].labels
        if not all(torch.equal(part.labels, labels) for part in models):
            raise InvalidInput(
                "Reference models should predict the same examples as the target, in their order."
            )
        of_target, *of_references = (np.exp(-loss(part)) for part in models)
        out: Array = np.mean(of_references, axis=0)
        return of_target / np.maximum(0.5 * ((1.0 + self.a) * out + (1.0 - self.a)), 1e-300)


def split_nonmembers(target: Views, seed: int) -> tuple[Predictions, Predictions]:
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


def sample(predictions: Predictions, size: int, seed: int) -> Predictions:
    """A random part of ``size`` examples, in their order; all of them if there are fewer."""
    if len(predictions.labels) <= size:
        return predictions
    chosen = np.random.default_rng(seed).choice(len(predictions.labels), size, replace=False)
    return predictions.take(np.sort(chosen))


def decisions(
    features: Sequence[str],
    members: Predictions,
    others: Predictions,
    targets: Sequence[Predictions],
    *,
    seed: int = 0,
    released: bool = False,
    quick: bool = False,
) -> dict[str, list[Array]]:
    """Decision values on ``targets`` of SVCs fitted to ``members`` and ``others``, one per feature.

    Positive: like a member. The fits run in parallel. A feature is one of ``FEATURES``, or "error"
    for a regression; ``released``: as in the paper's released code. ``quick``: in single precision.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    def fit(name: str) -> list[Array]:
        own = {"error": absolute_error} | (RELEASED if released else {})
        feature = own[name] if name in own else FEATURES[name]
        rows = [feature(members), feature(others)]
        flags = np.arange(len(rows[0]) + len(rows[1])) < len(rows[0])
        decide = fit_svc(np.concatenate(rows), flags, seed, quick=quick)
        return [decide(feature(target)) for target in targets]

    # The matrices are small: BLAS threads of their own would only get in each other's way.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(features, pool.map(fit, features), strict=True))
