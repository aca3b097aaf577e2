"""The attacks' SVC: scikit-learn's for few examples, within 0.01 of it for many."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import SVC

from expunge._errors import InvalidInput
from expunge.evaluation import FEATURES, PAPER_FIVE, Predictions, Views, member_shares
from expunge.evaluation.attacks import _svc as module
from expunge.evaluation.attacks._population import decisions, sample
from expunge.evaluation.attacks._svc import fit_svc, kernel_sums, refine
from tests.unit.evaluation.worlds import predictions, world


def plain_share(
    feature: str, members: Predictions, others: Predictions, targets: Predictions
) -> float:
    """The published attack, literally."""
    compute = FEATURES[feature]
    x = np.concatenate([compute(members), compute(others)])
    y = np.r_[np.ones(len(members.labels)), np.zeros(len(others.labels))]
    model = SVC(C=3, gamma="auto", kernel="rbf").fit(x, y)
    return float(model.predict(compute(targets)).mean())


def plain(x: Any, members: Any, targets: Any) -> Any:
    """Decision values of the published SVC."""
    return SVC(C=3, gamma="auto", kernel="rbf").fit(x, members).decision_function(targets)


@pytest.mark.parametrize("feature", list(FEATURES))
def test_scores_of_few_examples_are_scikit_learns(feature: str) -> None:
    views = world(forget=2.0, retain=2.5, size=200)
    share = member_shares(views, [feature], seed=3)[feature]
    members = sample(views.split("retain"), 200, 3)
    assert share == plain_share(feature, members, views.test, views.forget)


@pytest.mark.parametrize("feature", list(FEATURES))
def test_scores_of_many_examples_are_within_a_hundredth_of_scikit_learns(feature: str) -> None:
    views = Views(
        forget=predictions(3000, 0, margin=4.0, classes=8),
        retain=predictions(1500, 1, margin=5.0, classes=8),
        test=predictions(1500, 2, margin=3.0, classes=8),
    )
    fast = member_shares(views, [feature])[feature]
    exact = plain_share(feature, views.split("retain"), views.test, views.forget)
    assert fast == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("feature", list(PAPER_FIVE))
def test_quick_decisions_are_exact_ones_but_for_rounding(feature: str) -> None:
    members, others = (predictions(600, seed, margin=3.0 + seed, classes=8) for seed in (1, 2))
    target = predictions(500, 0, margin=4.0, classes=8)
    (quick,), (exact,) = (
        decisions([feature], members, others, [target], quick=flag)[feature]
        for flag in (True, False)
    )
    np.testing.assert_allclose(quick, exact, atol=1e-3)


def test_multiplicities_pose_the_same_problem() -> None:
    random = np.random.default_rng(0)
    x = random.integers(0, 4, (2500, 1)).astype(float)
    members = random.random(2500) < 0.3 + 0.1 * x[:, 0]
    targets = np.linspace(-1, 5, 30)[:, None]
    fast, exact = fit_svc(x, members)(targets), plain(x, members, targets)
    np.testing.assert_allclose(fast, exact, atol=0.01)


def overlapping(size: int, seed: int = 0, centres: int = 4) -> tuple[Any, Any]:
    """Clusters in which members lie a little off non-members, seen by a narrow kernel."""
    random = np.random.default_rng(seed)
    members = random.random(size) < 0.4
    x = 6.0 * np.eye(centres)[random.integers(0, centres, size)]
    return x + random.normal(0, 2, x.shape) + 0.7 * members[:, None], members


def test_polishing_separate_fits_gives_the_fit_of_the_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SMALL", 10)
    x, members = overlapping(900)
    targets, _ = overlapping(2000, seed=1)
    fast, exact = fit_svc(x, members)(targets), plain(x, members, targets)
    assert np.corrcoef(fast, exact)[0, 1] > 0.999
    assert np.mean(fast > 0) == pytest.approx(np.mean(exact > 0), abs=0.005)


@pytest.mark.parametrize("most", [8000, 100])
def test_polishing_reaches_the_dual_optimum_from_nothing(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_MOVED", most)
    x, members = overlapping(400)
    signs = np.where(members, 1.0, -1.0)
    dual = refine(x, signs, np.zeros(400), 0.25, tol=1e-3, rounds=300)
    assert dual.settled
    model = SVC(C=3, gamma=0.25, tol=1e-5).fit(x, members)
    ours = kernel_sums(x, x, dual.alphas * signs, 0.25) + dual.intercept
    assert abs(dual.alphas @ signs) < 1e-6
    assert dual.alphas.min() >= 0.0
    assert dual.alphas.max() <= 3.0
    assert np.abs(ours - model.decision_function(x)).mean() < 0.02


def test_what_does_not_settle_is_fitted_plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", 10)
    monkeypatch.setattr(module, "refine", partial(refine, rounds=0))
    x, members = overlapping(500)
    fast, exact = fit_svc(x, members)(x), plain(x, members, x)
    np.testing.assert_array_equal(fast, exact)


def test_parts_with_one_kind_only_are_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SMALL", 10)
    x, members = overlapping(600)
    x = np.concatenate([x, 40.0 + np.eye(4)[[3, 3, 3]]])
    members = np.r_[members, True, True, True]
    fast, exact = fit_svc(x, members)(x), plain(x, members, x)
    assert np.mean((fast > 0) == (exact > 0)) > 0.99


def test_kernel_sums_are_the_kernels() -> None:
    random = np.random.default_rng(0)
    a, b, weights = (
        random.normal(5, 3, (300, 6)),
        random.normal(5, 3, (2100, 6)),
        random.random(2100),
    )
    expected = rbf_kernel(a, b, 0.1) @ weights
    np.testing.assert_allclose(kernel_sums(a, b, weights, 0.1), expected, rtol=1e-3, atol=1e-4)


def test_kernels_of_far_apart_points_are_not_rounding() -> None:
    """Logits in the thousands: what a diverged model says."""
    points = np.random.default_rng(0).normal(0, 1500, (300, 10))
    weights = np.arange(300.0)
    np.testing.assert_allclose(kernel_sums(points, points, weights, 0.1), weights, atol=1e-3)


def test_the_same_seed_gives_the_same_scores() -> None:
    views = world(forget=2.0, retain=2.5, size=1500)
    assert member_shares(views, seed=1) == member_shares(views, seed=1)


def test_members_are_a_sample_as_large_as_the_test_set() -> None:
    part = predictions(50, 0)
    assert len(sample(part, 20, 0).labels) == 20
    assert sample(part, 80, 0) is part


def test_the_paper_has_five_attacks() -> None:
    assert list(member_shares(world(forget=1.0, size=60))) == list(PAPER_FIVE)


@pytest.mark.parametrize("flag", [True, False])
def test_members_alone_are_refused(flag: bool) -> None:
    with pytest.raises(InvalidInput, match="members and non-members"):
        fit_svc(np.zeros((4, 1)), np.full(4, flag))
