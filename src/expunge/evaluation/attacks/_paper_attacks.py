"""The paper's five membership attacks: the share of the forget set called training data."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from expunge._arrays import Array
from expunge.engine import Predictions
from expunge.evaluation._views import Views
from expunge.evaluation.attacks._features import RELEASED
from expunge.evaluation.attacks._registry import FEATURES, PAPER_FIVE
from expunge.evaluation.svm._svc import fit_svc


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
    exact: bool = False,
    seed: int = 0,
    released: bool = False,
) -> dict[str, list[Array]]:
    """Decision values on ``targets`` of SVCs fitted to ``members`` and ``others``, one per feature.

    Positive: like a member. The fits run in parallel. ``released``: with the features of the
    paper's released code.
    """
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    def fit(name: str) -> list[Array]:
        feature = RELEASED.get(name, FEATURES[name]) if released else FEATURES[name]
        rows = [feature(members), feature(others)]
        flags = np.arange(len(rows[0]) + len(rows[1])) < len(rows[0])
        decide = fit_svc(np.concatenate(rows), flags, exact=exact, seed=seed)
        return [decide(feature(target)) for target in targets]

    # The matrices are small: BLAS threads of their own would only get in each other's way.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(features, pool.map(fit, features), strict=True))


def member_shares(
    views: Views,
    features: Sequence[str] = PAPER_FIVE,
    *,
    exact: bool = False,
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
    decided = decisions(
        features, members, others, [views.forget], exact=exact, seed=seed, released=released
    )
    return {name: float((values[0] > 0).mean()) for name, values in decided.items()}
