"""Claims on metrics that an add-on shifts, on results of known truth."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scipy import stats

from tests.unit.bench.paper.claims.made_runs import Curve, both, judge_claims, only, rua, run, ta


@pytest.mark.parametrize("addon", ["focus", "prob", "and"])
@pytest.mark.parametrize(
    ("variant", "status"),
    [
        ((1.0, 0.5, -0.4), "held"),
        ((9.0, 8.5, -9.4), "not held"),
        ((1.0, 9.5, 5.0), "inconclusive"),
        ((1.0, 0.9), "inconclusive"),
    ],
)
def test_an_addon_lowers_the_distance_of_rua_from_zero(
    addon: str, variant: tuple[float, ...], status: str
) -> None:
    found = only(both(rua(5.0, 5.2, 5.4), rua(*variant), addon=addon), f"{addon}-rua")
    assert found.status == status
    assert found.n == len(variant)
    assert found.group.startswith("digits/small-cnn/random:0.1 SRL-")


def test_pairing_finds_what_the_spread_between_seeds_hides() -> None:
    base, variant = (2.0, 12.0, 22.0), (1.0, 11.1, 20.9)
    assert only(both(rua(*base), rua(*variant)), "focus-rua").status == "held"
    assert stats.ttest_ind(variant, base).pvalue > 0.5


def test_the_interval_is_that_of_the_paired_t_test() -> None:
    base, variant = (5.0, 6.0, 8.0, 7.0), (4.0, 5.5, 6.0, 6.5)
    found = only(both(rua(*base), rua(*variant)), "focus-rua")
    assert found.interval == pytest.approx(stats.ttest_rel(variant, base).confidence_interval(0.95))
    assert found.effect == pytest.approx(-1.0)


def test_a_diverged_addon_run_is_named_and_keeps_a_claim_from_being_held() -> None:
    results = both(rua(5.0, 5.1, 5.2, 5.0), rua(1.0, 1.1, 1.2, 1.0))
    results[-1] = run("random-label", "focus", 3, diverged="nan at step 3")
    found = only(results, "focus-rua")
    assert (found.status, found.n) == ("inconclusive", 3)
    assert "add-on diverged with seed 3" in found.detail
    assert found.interval is not None
    assert found.interval[1] < 0


def test_an_addon_that_always_diverges_does_not_hold() -> None:
    gone = [{"diverged": "nan"}] * 3
    assert only(both(rua(5.0, 5.1, 5.2), gone), "focus-rua").status == "not held"
    assert only(both(rua(5.0, 5.1), gone[:2]), "focus-rua").status == "inconclusive"


def test_a_diverged_base_run_is_named() -> None:
    results = both(rua(5.0, 5.1, 5.2, 5.0), rua(1.0, 1.1, 1.2, 1.0))
    results[0] = run("random-label", seed=0, diverged="nan")
    found = only(results, "focus-rua")
    assert (found.status, found.n) == ("held", 3)
    assert "base diverged with seed 0" in found.detail


@pytest.mark.parametrize(
    ("variant", "status"),
    [((0.6, 0.62, 0.6), "held"), ((0.95, 0.96, 0.95), "not held"), ((0.6, 1.0), "inconclusive")],
)
def test_focus_lowers_the_entropy_attack(variant: tuple[float, ...], status: str) -> None:
    base = [{"mia": v} for v in (0.9, 0.91, 0.89)]
    found = only(both(base, [{"mia": v} for v in variant]), "focus-mia")
    assert (found.status, found.unit) == (status, "share")


@pytest.mark.parametrize(
    ("variant", "status"),
    [
        ((89.0, 89.1, 89.0), "held"),
        ((95.0, 95.1, 95.0), "held"),
        ((87.0, 87.1, 87.0), "not held"),
        ((89.0, 88.0, 88.2), "inconclusive"),
    ],
)
def test_the_cost_in_ta_stays_within_its_margin(variant: tuple[float, ...], status: str) -> None:
    assert only(both(ta(90.0, 90.1, 90.1), ta(*variant)), "ta-cost").status == status


@pytest.mark.parametrize(
    ("variant", "status"),
    [((5.1, 4.9, 5.0), "held"), ((8.0, 8.1, 7.9), "not held"), ((4.0, 6.0, 5.0), "inconclusive")],
)
def test_salun_changes_little_either_way(variant: tuple[float, ...], status: str) -> None:
    results = both(rua(5.0, 5.0, 5.0), rua(*variant), addon="saliency")
    found = [f for f in judge_claims(results, ["salun-little"]) if f.status != "no data"]
    assert [f.group.rpartition(", ")[2] for f in found] == ["|rUA|", "TA"]
    assert found[0].status == status


WILD = (20.0, 10.0, -10.0, -30.0, -46.0)


TAME = (20.0, 4.0, 3.0, 2.0, 1.0)


def unstable(mask: Sequence[Curve], focus: Sequence[Curve]) -> list[str]:
    results = [run("neg-grad-plus", "and", s, rua=c, ta=80.0 - s) for s, c in enumerate(mask)]
    results += [run("neg-grad-plus", "focus", s, rua=c) for s, c in enumerate(focus)]
    return [f.status for f in judge_claims(results, ["and-unstable"])]


def test_and_is_unstable_where_focus_is_not() -> None:
    assert unstable([WILD] * 3, [TAME] * 3) == ["held"] * 3
    assert unstable([TAME] * 3, [WILD] * 3) == ["not held", "held", "not held"]
    assert unstable([WILD, TAME, TAME], [TAME] * 3)[0] == "inconclusive"
    assert unstable([], [TAME] * 3) == ["no data"] * 3


def test_a_mask_that_diverges_is_unstable_and_a_focus_that_does_is_not_stable() -> None:
    tame = [run("neg-grad-plus", "focus", s, rua=TAME) for s in range(3)]
    gone = [run("neg-grad-plus", "and", s, diverged="nan") for s in range(3)]
    assert {f.status for f in judge_claims(tame + gone, ["and-unstable"])} == {"held"}
    wild = [run("neg-grad-plus", "and", s, rua=WILD, ta=50.0 + s) for s in range(4)]
    lost = run("neg-grad-plus", "focus", 3, diverged="nan")
    found = judge_claims([*tame, lost, *wild], ["and-unstable"])
    assert {f.status for f in found} == {"inconclusive"}


@pytest.mark.parametrize(
    ("early", "status"),
    [((50.0, 52.0, 54.0), "held"), ((93.0, 92.0, 93.0), "not held"), ((50.0,), "inconclusive")],
)
def test_msg_and_ct_lose_accuracy_at_first(early: tuple[float, ...], status: str) -> None:
    results = [
        run("conv-transpose", seed=s, ta=(90.0, each, 80.0, 85.0, 88.0))
        for s, each in enumerate(early)
    ]
    found = only(results, "early-ta")
    assert found.status == status
    assert "-2.00 at the last epoch" in found.detail


def test_all_five_attacks_are_findings_of_their_own() -> None:
    results = both([{"mia": 0.9}] * 3, [{"mia": 0.5 + s / 100} for s in range(3)])
    found = {
        f.group: f.status for f in judge_claims(results, ["all-mia"]) if "SRL-FOCUS" in f.group
    }
    assert len(found) == 5
    assert found["digits/small-cnn/random:0.1 SRL-FOCUS, MIA entropy"] == "held"


def test_the_detail_has_the_distance_of_the_mean_as_well() -> None:
    found = only(both(rua(5.0, 5.0, 5.0), rua(2.0, -2.0, 3.0)), "focus-rua")
    assert "mean |rUA| 5.00 → 2.33, |mean rUA| 5.00 → 1.00" in found.detail


@pytest.mark.parametrize(("other", "status"), [(-2.0, "held"), (-9.0, "not held")])
def test_another_share_of_weights_is_compared_with_that_of_the_authors(
    other: float, status: str
) -> None:
    names = {"mask-small-gradients": -5.0, "mask-small-gradients(share=0.1)": other}
    results = [
        run(name, seed=seed, rua=rua + 0.1 * seed)
        for name, rua in names.items()
        for seed in (0, 1, 2)
    ]
    found = only(results, "msg-threshold")
    assert found.status == status
    assert found.effect == pytest.approx(abs(other) - 5.0)
    assert "share=0.1" in found.group
