"""The claim on the order of the add-ons, on results of known truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from expunge.bench._results import BenchResult
from expunge.bench.paper.claims._addon_order import kendall
from tests.unit.bench.paper.claims.made_runs import judge_claims, only, run

ADDONS = ("none", "saliency", "and", "prob", "focus")


def ranked(order: Sequence[float], noise: float = 0.01, **settings: Any) -> list[BenchResult]:
    random = np.random.default_rng(len(settings))
    return [
        run("random-label", addon, seed, rua=level + noise * float(random.normal()), **settings)
        for addon, level in zip(ADDONS, order, strict=True)
        for seed in range(3)
    ]


@pytest.mark.parametrize(
    ("other", "status"),
    [((9, 8, 7, 6, 5), "held"), ((5, 6, 7, 8, 9), "not held")],
)
def test_the_order_of_addons_is_the_same_elsewhere(other: Sequence[float], status: str) -> None:
    results = ranked((5, 4, 3, 2, 1)) + ranked(other, arch="vgg16")
    found = only(results, "order")
    assert found.status == status
    assert found.effect == pytest.approx(1.0 if status == "held" else -1.0)


def test_an_order_lost_in_noise_is_inconclusive() -> None:
    results = ranked((5, 4, 3, 2, 1), noise=3.0) + ranked((5, 4, 3, 2, 1), 3.0, dataset="svhn")
    assert only(results, "order").status == "inconclusive"


def test_an_order_needs_other_data_or_another_architecture() -> None:
    results = ranked((5, 4, 3, 2, 1)) + ranked((5, 4, 3, 2, 1), scenario="random:0.5")
    assert {f.status for f in judge_claims(results, ["order"])} == {"no data"}


def test_a_diverged_addon_ranks_last_and_keeps_the_order_from_being_held() -> None:
    results = ranked((5, 4, 3, 2, 1)) + ranked((5, 4, 3, 2, 1), arch="vgg16")
    lost = run("random-label", "focus", 2, arch="vgg16", diverged="nan")
    kept = [r for r in results if r.key != lost.key]
    found = only([*kept, lost], "order")
    assert found.status == "inconclusive"
    assert found.effect == pytest.approx(0.2)
    assert "diverged: 1" in found.detail


def test_kendall_agrees_with_scipy_ties_included() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(4, size=(2, 50, 5)).astype(float)
    expected = [np.nan_to_num(stats.kendalltau(x, y).statistic) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(kendall(a, b), expected, atol=1e-12)
