"""Frontiers: a larger learning rate is distinguished from a better trade-off."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from expunge.bench._results import BenchResult
from expunge.bench.paper.claims import ClaimFinding
from expunge.bench.paper.claims._sweeps import unseen_gap
from tests.unit.bench.paper.claims.made_runs import EPOCHS, judge_claims, only, run

RATES = (1.0, 2.0, 4.0)
START = 12.0


def swept(
    addon: str, clock: float = 1.0, price: float = 1.0, seeds: int = 3, noise: float = 0.0
) -> list[BenchResult]:
    """Runs along a curve in time t = clock·lr·epoch: |rUA| falls, TA is lost faster and faster.

    ``price`` multiplies the TA lost for the same |rUA|; every seed has a curve of its own.
    """
    random = np.random.default_rng([seeds, len(addon)])
    results = []
    for seed in range(seeds):
        for rate in RATES:
            t = np.array([clock * rate * epoch for epoch in EPOCHS])
            lost = price * (1 + 0.2 * seed) * (t / 20) ** 1.5
            far = (START + seed) * np.exp(-t / (15 + seed))
            far[1:] += noise * random.normal(size=len(t) - 1)
            curves = {"ta": (90.0 - lost).tolist(), "rua": far.tolist()}
            results.append(run("random-label", addon, seed, lr=rate, **curves))
    return results


def clock_of(results: list[BenchResult]) -> ClaimFinding:
    (found,) = (f for f in judge_claims(results, ["clock"]) if "SRL" in f.group)
    return found


@pytest.mark.parametrize("clock", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("noise", [0.0, 0.1])
def test_a_faster_clock_is_inconclusive(clock: float, noise: float) -> None:
    found = clock_of(swept("none", noise=noise) + swept("focus", clock=clock, noise=noise))
    assert found.status == "inconclusive"
    assert found.effect == pytest.approx(0.0, abs=0.25)


def test_a_better_trade_off_is_held_and_a_worse_one_is_not() -> None:
    better = clock_of(swept("none") + swept("focus", price=0.4))
    assert better.status == "held"
    worse = clock_of(swept("none") + swept("focus", price=2.5))
    assert worse.status == "not held"


def test_a_better_trade_off_shows_through_a_slower_clock() -> None:
    assert clock_of(swept("none") + swept("focus", clock=0.5, price=0.4)).status == "held"


def test_two_seeds_or_a_diverged_run_cannot_hold() -> None:
    assert clock_of(swept("none", seeds=2) + swept("focus", price=0.4, seeds=2)).n == 2
    results = swept("none") + swept("focus", price=0.4)
    lost = results[-1]
    results[-1] = run("random-label", "focus", lost.seed, lr=lost.lr, diverged="nan")
    found = clock_of(results)
    assert found.status == "inconclusive"
    assert "SRL-FOCUS runs diverged: 1" in found.detail


def test_settings_of_one_arm_only_are_left_out_and_counted() -> None:
    base, variant = swept("none"), swept("focus", price=0.4)
    alone = [run("random-label", "focus", s, lr=9.0, rua=0.0, ta=90.0) for s in range(3)]
    with_them, without = clock_of(base + variant + alone), clock_of(base + variant)
    assert (with_them.effect, with_them.interval) == (without.effect, without.interval)
    assert "runs without a counterpart, left out: 3" in with_them.detail
    assert "3 settings" in with_them.detail


def test_a_seed_whose_sweep_is_not_finished_does_not_count() -> None:
    results = swept("none", seeds=4) + swept("focus", price=0.4, seeds=4)
    partial = [r for r in results if r.seed < 3 or r.lr == 1.0]
    found, whole = clock_of(partial), clock_of([r for r in results if r.seed < 3])
    assert (found.status, found.n, found.effect) == (whole.status, 3, whole.effect)
    assert "seeds with fewer settings, left out: 1" in found.detail


def test_what_is_left_stands_beside_a_frontier_that_is_lower() -> None:
    found = clock_of(swept("none") + swept("focus", price=0.4))
    words = r"least \|rUA\| within reach of both: SRL ([\d.]+), SRL-FOCUS ([\d.]+)"
    (pair,) = re.findall(words, found.detail)
    assert 0 < float(pair[1]) < float(pair[0])


def test_masks_have_a_claim_of_their_own_where_they_were_tried() -> None:
    results = swept("none") + swept("prob", price=0.4)
    (found,) = judge_claims(results, ["clock-masks"])
    assert (found.status, found.group.split()[-1]) == ("held", "SRL-PROB")
    assert {f.status for f in judge_claims(swept("none"), ["clock-masks"])} == {"no data"}


def test_what_rmia_finds_is_compared_in_hundredths_of_an_auc() -> None:
    def with_auc(results: list[BenchResult], per_point: float) -> list[BenchResult]:
        """The AUC is as far from one half as |rUA| is from zero."""
        for result in results:
            for row in result.epochs:
                row["rmia_auc"] = 0.5 - per_point * row["rua"]
        return results

    results = with_auc(swept("none"), 0.01) + with_auc(swept("focus", price=0.4), 0.01)
    (rmia,) = judge_claims(results, ["clock-rmia"])
    assert rmia.status == "held"
    assert rmia.effect == pytest.approx(clock_of(results).effect)
    (missing,) = judge_claims(swept("none") + swept("focus"), ["clock-rmia"])
    assert missing.status == "no data"
    assert "was not measured" in missing.detail


def test_a_single_setting_is_no_sweep() -> None:
    results = [r for r in swept("none") + swept("focus", price=0.4) if r.lr == 1.0]
    assert clock_of(results).status == "no data"


def test_unseen_images_stand_in_for_an_ideal_model() -> None:
    def with_classes(results: list[BenchResult]) -> list[BenchResult]:
        """One class is right more often, by |rUA| and as much as another is right less often."""
        for result in results:
            for row in result.epochs:
                row |= {"ta_class_0": 50.0, "ta_class_1": 60.0, "ta_class_2": 0.0}
                row |= {"ua_class_0": 50.0 + 3 * row["rua"], "ua_class_1": 60.0 - row["rua"]}
        return results

    results = with_classes(swept("none")) + with_classes(swept("focus", price=0.4))
    (found,) = judge_claims(results, ["clock-unseen"])
    whole = clock_of(results)  # the mean over classes is (3 - 1) / 2 times rUA
    assert (found.status, found.effect) == ("held", pytest.approx(whole.effect))
    assert unseen_gap(results[0].epochs[0]) == pytest.approx(results[0].epochs[0]["rua"])
    (missing,) = judge_claims(swept("none") + swept("focus"), ["clock-unseen"])
    assert missing.status == "no data"
    assert "|UA - TA| was not measured" in missing.detail


def test_a_method_whose_frontier_lies_above_another_is_dominated() -> None:
    worse = [
        replace(result, key=f"{result.key} NGPlus", method="neg-grad-plus")
        for result in swept("none")
    ]
    found = only([*worse, *swept("none", price=0.4)], "ngplus-dominated")
    assert found.status == "held"
    assert re.search(r"within reach of both: NGPlus [\d.]+, SRL [\d.]+", found.detail)
