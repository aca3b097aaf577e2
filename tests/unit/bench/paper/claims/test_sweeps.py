"""Frontiers of two sweeps, against slow and literal references."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.bench._results import BenchResult
from expunge.bench._tasks import Sweep
from expunge.bench.paper.claims import _sweeps
from expunge.bench.paper.claims._sweeps import (
    StoppingPoint,
    balanced,
    compare_frontiers,
    frontier_at,
    pareto,
    seeds_of,
    stopping_points,
)
from tests.unit.bench.paper.claims.made_runs import EPOCHS, run
from tests.unit.bench.paper.claims.test_frontier import RATES, swept


def sweep_of(results: list[BenchResult]) -> Sweep:
    found: Sweep = {}
    for result in results:
        found.setdefault(result.hyperparameters, {})[result.seed] = result
    return found


def slow_points(result: BenchResult) -> list[tuple[float, float]]:
    """Every epoch, and every place after the first epoch where a line between two passes zero."""
    rows = [(r["epoch"], result.epochs[0]["ta"] - r["ta"], r["rua"]) for r in result.epochs]
    points = [(lost, abs(rua)) for _, lost, rua in rows]
    for (epoch, lost, rua), (_, end, end_rua) in itertools.pairwise(rows):
        if epoch >= 1 and min(rua, end_rua) < 0 < max(rua, end_rua):
            shares = [k / 100_000 for k in range(100_001)]
            share = min(shares, key=lambda t: abs(rua + t * (end_rua - rua)))
            points.append((lost + share * (end - lost), 0.0))
    return points


def reference(
    base: list[BenchResult], addon: list[BenchResult], most: float, step: float
) -> list[float]:
    """The mean differences by seed, by the letter, at losses of TA that all seeds of both reach."""
    seeds = sorted({r.seed for r in base})
    points = [
        {seed: [p for r in variant if r.seed == seed for p in slow_points(r)] for seed in seeds}
        for variant in (base, addon)
    ]
    reach = max(
        0.0, min(max(lost for lost, _ in variant[seed]) for variant in points for seed in seeds)
    )
    ta_lost = [k * step for k in range(round(most / step) + 1) if k * step <= reach + 1e-9]
    means = []
    for seed in seeds:
        alone, added = ([slow_lowest(variant[seed], b) for b in ta_lost] for variant in points)
        means.append(sum(y - x for x, y in zip(alone, added, strict=True)) / len(ta_lost))
    return means


def slow_lowest(rows: list[tuple[float, float]], lost: float) -> float:
    front = [
        (lost, far)
        for lost, far in set(rows)
        if not any(a <= lost and b <= far and (a, b) != (lost, far) for a, b in rows)
    ]
    left = [p for p in front if p[0] <= lost]
    right = [p for p in front if p[0] > lost]
    if not left:
        return math.nan
    x0, y0 = max(left)
    if not right:
        return y0
    x1, y1 = min(right)
    return y0 + (y1 - y0) * (lost - x0) / (x1 - x0)


@pytest.mark.parametrize("most", [0.5, 5.0])
def test_the_difference_is_that_of_the_slow_reference(
    most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_sweeps, "MAX_LOST", most)
    base, addon = swept("none", noise=4.0), swept("focus", clock=1.7, price=0.8, noise=4.0)
    assert any(row["rua"] < 0 for result in base + addon for row in result.epochs)
    found = compare_frontiers(sweep_of(base), sweep_of(addon))
    assert found.means == pytest.approx(reference(base, addon, most, 0.25), abs=1e-3)


POINTS = st.lists(
    st.builds(StoppingPoint, st.integers(-5, 9).map(float), st.integers(0, 9).map(float)),
    min_size=1,
)


@given(POINTS)
def test_a_frontier_is_what_nothing_betters(points: list[StoppingPoint]) -> None:
    def bettered(p: StoppingPoint) -> bool:
        return any(q != p and q.lost <= p.lost and q.distance <= p.distance for q in points)

    assert pareto(points) == sorted(p for p in set(points) if not bettered(p))


@given(POINTS, st.floats(-6, 10))
def test_the_lowest_within_a_loss_is_that_of_the_slow_reference(
    points: list[StoppingPoint], lost: float
) -> None:
    wanted = slow_lowest([(p.lost, p.distance) for p in points], lost)
    assert frontier_at(pareto(points), [lost]) == pytest.approx([wanted], nan_ok=True)


def test_a_sweep_does_not_differ_from_itself() -> None:
    base = sweep_of(swept("none", noise=1.0))
    found = compare_frontiers(base, base)
    assert found.means == [0.0, 0.0, 0.0]


def test_a_run_that_passes_zero_between_two_epochs_could_have_stopped_there() -> None:
    rua, ta = (8.0, 4.0, 1.0, -3.0, -5.0), (90.0, 89.0, 88.0, 84.0, 80.0)
    result = run("random-label", rua=rua, ta=ta)
    points = stopping_points(result)
    assert len(points) == len(EPOCHS) + 1
    assert StoppingPoint(3.0, 0.0) in points  # a quarter of the way from 2 to 6 points of TA
    shock = run("random-label", rua=(8.0, -4.0, -4.0, -4.0, -4.0), ta=ta)
    assert len(stopping_points(shock)) == len(EPOCHS)  # the first epoch is no straight line


def test_balanced_sweeps_have_the_same_settings_for_the_same_seeds() -> None:
    base, addon = sweep_of(swept("none", seeds=4)), sweep_of(swept("focus", seeds=4))
    slow, _, fast = base
    del addon[slow][3], addon[fast][3]  # seed 3 has one setting
    extra = replace(slow, lr=9.0)
    base[extra] = addon[extra] = {0: base[slow][0]}  # a setting of seed 0 alone
    first, second = balanced((base, addon), least=3)
    assert list(first) == list(second) == [d for d in base if d.lr in RATES]
    assert seeds_of(first) == seeds_of(second) == [0, 1, 2]
    found = compare_frontiers(base, addon)
    assert (found.settings, found.unfinished, found.left_out) == (3, 1, 3 + 1 + 2)
    assert balanced((base, {}), least=1) == [{}, {}]


def test_every_seed_is_compared_at_the_same_losses() -> None:
    base, addon = swept("none"), swept("focus")
    for result in addon:
        if result.seed == 1:
            for row in result.epochs:
                row["ta"] = max(row["ta"], 89.3)  # never loses more than 0.7 points
    found = compare_frontiers(sweep_of(base), sweep_of(addon))
    assert found.ta_lost == [0.0, 0.25, 0.5]
    assert {len(values) for values in found.differences.values()} == {3}
