"""Claims on metrics that an add-on shifts, on records of known truth."""

from __future__ import annotations

import pytest
from scipy import stats

from expunge.bench.claims import judge_claims
from tests.unit.bench.claims.made_runs import both, only, rua, run, ta


@pytest.mark.parametrize("addon", ["focus", "prob", "and"])
@pytest.mark.parametrize(
    ("arm", "status"),
    [
        ((1.0, 0.5, -0.4), "held"),
        ((9.0, 8.5, -9.4), "not held"),
        ((1.0, 9.5, 5.0), "inconclusive"),
        ((1.0, 0.9), "inconclusive"),
    ],
)
def test_an_addon_lowers_the_distance_of_rua_from_zero(
    addon: str, arm: tuple[float, ...], status: str
) -> None:
    found = only(both(rua(5.0, 5.2, 5.4), rua(*arm), addon=addon), f"{addon}-rua")
    assert found.status == status
    assert found.n == len(arm)
    assert found.group.startswith("digits/small-cnn/random:0.1 SRL-")


def test_pairing_finds_what_the_spread_between_seeds_hides() -> None:
    base, arm = (2.0, 12.0, 22.0), (1.0, 11.1, 20.9)
    assert only(both(rua(*base), rua(*arm)), "focus-rua").status == "held"
    assert stats.ttest_ind(arm, base).pvalue > 0.5


def test_the_interval_is_that_of_the_paired_t_test() -> None:
    base, arm = (5.0, 6.0, 8.0, 7.0), (4.0, 5.5, 6.0, 6.5)
    found = only(both(rua(*base), rua(*arm)), "focus-rua")
    assert found.interval == pytest.approx(stats.ttest_rel(arm, base).confidence_interval(0.95))
    assert found.effect == pytest.approx(-1.0)


def test_a_diverged_addon_run_is_named_and_keeps_a_claim_from_being_held() -> None:
    records = both(rua(5.0, 5.1, 5.2, 5.0), rua(1.0, 1.1, 1.2, 1.0))
    records[-1] = run("random-label", "focus", 3, diverged="nan at step 3")
    found = only(records, "focus-rua")
    assert (found.status, found.n) == ("inconclusive", 3)
    assert "add-on diverged with seed 3" in found.detail
    assert found.interval is not None
    assert found.interval[1] < 0


def test_an_addon_that_always_diverges_does_not_hold() -> None:
    gone = [{"diverged": "nan"}] * 3
    assert only(both(rua(5.0, 5.1, 5.2), gone), "focus-rua").status == "not held"
    assert only(both(rua(5.0, 5.1), gone[:2]), "focus-rua").status == "inconclusive"


def test_a_diverged_base_run_is_named() -> None:
    records = both(rua(5.0, 5.1, 5.2, 5.0), rua(1.0, 1.1, 1.2, 1.0))
    records[0] = run("random-label", seed=0, diverged="nan")
    found = only(records, "focus-rua")
    assert (found.status, found.n) == ("held", 3)
    assert "base diverged with seed 0" in found.detail


@pytest.mark.parametrize(
    ("arm", "status"),
    [((0.6, 0.62, 0.6), "held"), ((0.95, 0.96, 0.95), "not held"), ((0.6, 1.0), "inconclusive")],
)
def test_focus_lowers_the_entropy_attack(arm: tuple[float, ...], status: str) -> None:
    base = [{"mia": v} for v in (0.9, 0.91, 0.89)]
    found = only(both(base, [{"mia": v} for v in arm]), "focus-mia")
    assert (found.status, found.unit) == (status, "share")


@pytest.mark.parametrize(
    ("arm", "status"),
    [
        ((89.0, 89.1, 89.0), "held"),
        ((95.0, 95.1, 95.0), "held"),
        ((87.0, 87.1, 87.0), "not held"),
        ((89.0, 88.0, 88.2), "inconclusive"),
    ],
)
def test_the_cost_in_ta_stays_within_its_margin(arm: tuple[float, ...], status: str) -> None:
    assert only(both(ta(90.0, 90.1, 90.1), ta(*arm)), "ta-cost").status == status


@pytest.mark.parametrize(
    ("arm", "status"),
    [((5.1, 4.9, 5.0), "held"), ((8.0, 8.1, 7.9), "not held"), ((4.0, 6.0, 5.0), "inconclusive")],
)
def test_salun_changes_little_either_way(arm: tuple[float, ...], status: str) -> None:
    records = both(rua(5.0, 5.0, 5.0), rua(*arm), addon="saliency")
    found = [f for f in judge_claims(records, ["salun-little"]) if f.status != "no data"]
    assert [f.group.rpartition(", ")[2] for f in found] == ["|rUA|", "TA"]
    assert found[0].status == status
