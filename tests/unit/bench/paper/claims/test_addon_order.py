"""The claim on the order of the add-ons, on results of known truth."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats

from expunge.bench._results import BenchResult
from expunge.bench.paper.claims._addon_order import kendall
from expunge.bench.paper.claims._base import ClaimFinding
from tests.unit.bench.paper.claims.made_runs import judge_claims, run

ADDONS = ("none", "saliency", "and", "prob", "focus")


def ranked(order: Sequence[float], noise: float = 0.01, **settings: Any) -> list[BenchResult]:
    random = np.random.default_rng(len(settings))
    return [
        run("random-label", addon, seed, rua=level + noise * float(random.normal()), **settings)
        for addon, level in zip(ADDONS, order, strict=True)
        for seed in range(3)
    ]


def by_metric(results: Sequence[BenchResult]) -> dict[str, ClaimFinding]:
    """The findings that have data, by metric."""
    found = [f for f in judge_claims(results, ["order"]) if f.status != "no data"]
    return {finding.group.partition(", ")[2]: finding for finding in found}


@pytest.mark.parametrize(
    ("other", "status"),
    [((9, 8, 7, 6, 5), "held"), ((5, 6, 7, 8, 9), "not held")],
)
def test_the_order_of_addons_is_the_same_elsewhere(other: Sequence[float], status: str) -> None:
    results = ranked((5, 4, 3, 2, 1)) + ranked(other, arch="vgg16")
    found = by_metric(results)["|rUA|"]
    assert found.status == status
    assert found.effect == pytest.approx(1.0 if status == "held" else -1.0)


def test_an_order_lost_in_noise_is_inconclusive() -> None:
    results = ranked((5, 4, 3, 2, 1), noise=3.0) + ranked((5, 4, 3, 2, 1), 3.0, dataset="svhn")
    assert by_metric(results)["|rUA|"].status == "inconclusive"


def test_an_order_needs_other_data_or_another_architecture() -> None:
    results = ranked((5, 4, 3, 2, 1)) + ranked((5, 4, 3, 2, 1), scenario="random:0.5")
    assert {f.status for f in judge_claims(results, ["order"])} == {"no data"}


def test_a_diverged_addon_ranks_last_and_keeps_the_order_from_being_held() -> None:
    results = ranked((5, 4, 3, 2, 1)) + ranked((5, 4, 3, 2, 1), arch="vgg16")
    lost = run("random-label", "focus", 2, arch="vgg16", diverged="nan")
    kept = [r for r in results if r.key != lost.key]
    found = by_metric([*kept, lost])["|rUA|"]
    assert found.status == "inconclusive"
    assert found.effect == pytest.approx(0.2)
    assert "diverged: 1" in found.detail


def test_each_metric_has_an_order_of_its_own() -> None:
    results = ranked((5, 4, 3, 2, 1)) + ranked((5, 4, 3, 2, 1), arch="vgg16")
    for result in results:
        level = ADDONS.index(result.addon) * (1 if result.arch == "vgg16" else -1)
        result.final["ta"] = 80.0 + level
        result.final.pop("fid", None)
    found = by_metric(results)
    assert found["|rUA|"].effect == pytest.approx(1.0)
    assert found["TA"].effect == pytest.approx(-1.0)
    assert "FID" not in found
    assert found["TA"].detail == "pairs of tasks: 1"


def test_a_task_that_lacks_an_addon_does_not_take_it_from_the_others() -> None:
    results = ranked((5, 4, 3, 2, 1)) + ranked((5, 4, 3, 2, 1), arch="vgg16")
    partly = ranked((5, 4, 3, 2, 1), dataset="svhn")
    lacking = [result for result in partly if result.addon != "prob"]
    few = [result for result in partly if result.addon in ("none", "focus")]
    whole, less, least = (
        by_metric(results + more)["|rUA|"].effect for more in (partly, lacking, few)
    )
    assert (whole, less, least) == pytest.approx((1.0, 1.0, 1.0))


def test_two_addons_have_no_order_to_compare() -> None:
    results = ranked((5, 4, 3, 2, 1)) + ranked((5, 4, 3, 2, 1), arch="vgg16")
    few = [result for result in results if result.addon in ("none", "focus")]
    assert {f.status for f in judge_claims(few, ["order"])} == {"no data"}


def test_kendall_agrees_with_scipy_ties_included() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(4, size=(2, 50, 5)).astype(float)
    expected = [np.nan_to_num(stats.kendalltau(x, y).statistic) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(kendall(a, b), expected, atol=1e-12)
