"""Claims on the two gradients, on results of known truth."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from expunge.bench._results import BenchResult
from tests.unit.bench.paper.claims.made_runs import only, run


def stepped(name: str, values: Sequence[Sequence[float | None]]) -> list[BenchResult]:
    return [
        run("random-label", "focus", s, steps={name: list(column)})
        for s, column in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("size", "status"),
    [((0.01, 0.02, 0.01), "held"), ((0.3, 0.4, 0.3), "not held"), ((0.01, 0.3), "inconclusive")],
)
def test_the_product_concentrates_at_zero(size: tuple[float, ...], status: str) -> None:
    columns = [[each, -each, None, 0.9, -each] for each in size]
    found = only(stepped("cosine", columns), "product-zero")
    assert found.status == status
    assert found.effect == pytest.approx(np.mean(size))


@pytest.mark.parametrize(
    ("late", "status"),
    [((1e-9, 1e-8, 1e-9), "held"), ((1.0, 2.0, 1.0), "not held"), ((1e-9, 10.0), "inconclusive")],
)
def test_the_product_shrinks(late: tuple[float, ...], status: str) -> None:
    columns = [[1e-5, -1e-5, 7.0, 7.0, 7.0, 7.0, -each, each] for each in late]
    found = only(stepped("product", columns), "product-shrinks")
    assert found.status == status
    assert found.effect == pytest.approx(np.mean(np.log10(np.array(late) / 1e-5)))


@pytest.mark.parametrize(
    ("share", "status"),
    [((0.25, 0.27, 0.24), "held"), ((0.5, 0.52, 0.5), "not held"), ((0.25, 0.5), "inconclusive")],
)
def test_a_quarter_agrees_and_a_quarter_disagrees(share: tuple[float, ...], status: str) -> None:
    results = []
    for seed, each in enumerate(share):
        bins = np.zeros(50)
        bins[[19, 20, 29, 30]] = [each, 0.2, 0.55 - each, 0.25]  # f just below 0.4, … above 0.6
        last = {"2": [1.0] + [0.0] * 49, "10": bins.tolist()}
        results.append(run("random-label", "focus", seed, agreement=last))
    found = only(results, "quarters")
    assert found.status == status
    assert found.effect == pytest.approx(
        np.mean([max(abs(100 * e - 25), abs(25 - 100 * e)) for e in share])
    )


@pytest.mark.parametrize(("late", "status"), [(0.3, "held"), (0.5, "not held")])
def test_the_mask_of_and_shrinks(late: float, status: str) -> None:
    results = [
        run("random-label", "and", s, steps={"moved": [0.4, 0.4, 0.4, late + 0.01 * s]})
        for s in range(3)
    ]
    found = only(results, "and-shrinks")
    assert found.status == status
    assert found.effect == pytest.approx(100 * (late + 0.01 - 0.4))


@pytest.mark.parametrize(
    ("ratios", "status"),
    [((0.01, 0.02, 0.01), "held"), ((0.4, 0.5, 0.4), "not held"), ((0.01, 0.4), "inconclusive")],
)
def test_the_constraint_is_flat_where_the_model_was_trained_on_it(
    ratios: tuple[float, ...], status: str
) -> None:
    results = [run("random-label")]
    for seed, ratio in enumerate(ratios):
        start = run("", seed=seed, model="initial")
        start.epochs[:] = [{"epoch": 0, "ua": 90.0, "retain_peak": 2 * ratio, "unseen_peak": 2.0}]
        results.append(start)
    found = only(results, "flat-constraint")
    assert found.status == status
    assert found.effect == pytest.approx(np.exp(np.mean(np.log(ratios))))
