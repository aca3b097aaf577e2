"""Claims on hand-made records of known truth: held, not held, inconclusive, without data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from expunge._errors import InvalidInput
from expunge.bench._records import SETTINGS, Record
from expunge.bench.claims import CLAIMS, Finding, judge_claims
from expunge.bench.claims._addon_order import kendall

EPOCHS = (0, 1, 2, 5, 10)
SETTING = {
    "block": "b",
    "dataset": "digits",
    "arch": "small-cnn",
    "width": 1.0,
    "limit": None,
    "scenario": "random:0.1",
    "model": "unlearned",
    "aggregate": "linear",
    "alpha": 0.05,
    "beta": 0.95,
    "lr": 1e-4,
    "batch_size": 16,
    "budget": 10,
}
Curve = float | Sequence[float]


def run(
    method: str,
    addon: str = "none",
    seed: int = 0,
    *,
    rua: Curve = 5.0,
    ta: Curve = 90.0,
    mia: Curve = 0.9,
    time: float = 1.0,
    moments: str | None = None,
    diverged: str = "",
    steps: dict[str, list[float | None]] | None = None,
    agreement: dict[str, list[float]] | None = None,
    **settings: Any,
) -> Record:
    """A record; a metric is a number, or one a value of ``EPOCHS``."""
    if moments is None:
        moments = "published" if addon in ("focus", "prob") else ""
    own = SETTING | settings
    own |= {"method": method, "addon": addon, "moments": moments, "seed": seed}
    rows = []
    for k, epoch in enumerate(EPOCHS):
        row: dict[str, Any] = {"epoch": epoch, "ua": 95.0}
        for name, curve in {"rua": rua, "ta": ta, "mia_entropy": mia}.items():
            row[name] = curve if isinstance(curve, int | float) else curve[k]
        row |= {"seconds": 2 * time * epoch, "processor_seconds": time * epoch}
        rows.append(row)
    key = repr(own)
    assert set(own) == set(SETTINGS)
    return Record(
        key,
        own,
        rows[:2] if diverged else rows,
        diverged=diverged,
        steps=steps or {},
        agreement=agreement or {},
    )


def both(
    base: Sequence[dict[str, Any]],
    arm: Sequence[dict[str, Any]],
    method: str = "random-label",
    addon: str = "focus",
    **settings: Any,
) -> list[Record]:
    """Runs of a method alone and with an add-on, one dict of metrics a seed."""
    first = [run(method, "none", s, **each, **settings) for s, each in enumerate(base)]
    return first + [run(method, addon, s, **each, **settings) for s, each in enumerate(arm)]


def rua(*values: Curve) -> list[dict[str, Any]]:
    return [{"rua": value} for value in values]


def ta(*values: float) -> list[dict[str, Any]]:
    return [{"ta": value} for value in values]


def only(records: Sequence[Record], name: str) -> Finding:
    """The finding of a claim that is not "no data"; there is exactly one."""
    (found,) = (f for f in judge_claims(records, [name]) if f.status != "no data")
    return found


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


def test_every_claim_without_records_is_without_data() -> None:
    assert {f.status for f in judge_claims([])} == {"no data"}
    assert {f.claim.name for f in judge_claims([])} == set(CLAIMS)


def test_two_seeds_never_hold_a_claim() -> None:
    records = [
        run(method, addon, seed, rua=0.0 if addon != "none" else 50.0, mia=0.1, ta=ta)
        for method in ("random-label", "neg-grad-plus", "scrub", "conv-transpose")
        for addon in ("none", "saliency", "and", "prob", "focus")
        for seed in (0, 1)
        for ta in [(90.0, 10.0, 20.0, 30.0, 40.0)]
    ]
    assert {f.status for f in judge_claims(records)} == {"inconclusive", "no data"}


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


WILD = (20.0, 10.0, -10.0, -30.0, -46.0)
TAME = (20.0, 4.0, 3.0, 2.0, 1.0)


def unstable(mask: Sequence[Curve], focus: Sequence[Curve]) -> list[str]:
    records = [run("neg-grad-plus", "and", s, rua=c, ta=80.0 - s) for s, c in enumerate(mask)]
    records += [run("neg-grad-plus", "focus", s, rua=c) for s, c in enumerate(focus)]
    return [f.status for f in judge_claims(records, ["and-unstable"])]


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
    records = [
        run("conv-transpose", seed=s, ta=(90.0, each, 80.0, 85.0, 88.0))
        for s, each in enumerate(early)
    ]
    found = only(records, "early-ta")
    assert found.status == status
    assert "-2.00 at the last epoch" in found.detail


@pytest.mark.parametrize(
    ("times", "status"),
    [((1.1, 1.12, 1.1), "held"), ((1.6, 1.62, 1.6), "not held"), ((1.0, 1.6), "inconclusive")],
)
def test_the_overhead_is_a_ratio_of_processor_times(times: tuple[float, ...], status: str) -> None:
    records = both([{"time": 2.0}] * 3, [{"time": 2.0 * t} for t in times])
    found = only(records, "overhead")
    assert found.status == status
    assert found.effect == pytest.approx(100 * (stats.gmean(times) - 1))
    assert "processor time" in found.detail


def test_wall_time_serves_where_there_is_no_processor_time() -> None:
    records = both([{"time": 2.0}] * 3, [{"time": 2.2}] * 3)
    for record in records:
        for row in record.epochs:
            del row["processor_seconds"]
    found = only(records, "overhead")
    assert found.effect == pytest.approx(10.0)
    assert "wall time" in found.detail


def test_a_warm_up_in_the_first_epoch_is_no_overhead() -> None:
    records = both([{}] * 3, [{}] * 3)
    for record in records[3:]:
        for row in record.epochs[1:]:
            row["processor_seconds"] += 100.0
    assert only(records, "overhead").effect == pytest.approx(0.0)


def test_salun_may_cost_more_where_it_needs_a_third_gradient() -> None:
    times = [{"time": t} for t in (1.4, 1.41, 1.4)]
    records = both([{}] * 3, times, addon="saliency")
    assert only(records, "salun-overhead").status == "held"
    cheap = both([{}] * 3, times, method="neg-grad-plus", addon="saliency")
    assert only(cheap, "overhead").status == "not held"


def stepped(name: str, values: Sequence[Sequence[float | None]]) -> list[Record]:
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
    records = []
    for seed, each in enumerate(share):
        bins = np.zeros(50)
        bins[[19, 20, 29, 30]] = [each, 0.2, 0.55 - each, 0.25]  # f just below 0.4, … above 0.6
        last = {"2": [1.0] + [0.0] * 49, "10": bins.tolist()}
        records.append(run("random-label", "focus", seed, agreement=last))
    found = only(records, "quarters")
    assert found.status == status
    assert found.effect == pytest.approx(
        np.mean([max(abs(100 * e - 25), abs(25 - 100 * e)) for e in share])
    )


ADDONS = ("none", "saliency", "and", "prob", "focus")


def ranked(order: Sequence[float], noise: float = 0.01, **settings: Any) -> list[Record]:
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
    records = ranked((5, 4, 3, 2, 1)) + ranked(other, arch="vgg16")
    found = only(records, "order")
    assert found.status == status
    assert found.effect == pytest.approx(1.0 if status == "held" else -1.0)


def test_an_order_lost_in_noise_is_inconclusive() -> None:
    records = ranked((5, 4, 3, 2, 1), noise=3.0) + ranked((5, 4, 3, 2, 1), 3.0, dataset="svhn")
    assert only(records, "order").status == "inconclusive"


def test_an_order_needs_other_data_or_another_architecture() -> None:
    records = ranked((5, 4, 3, 2, 1)) + ranked((5, 4, 3, 2, 1), scenario="random:0.5")
    assert {f.status for f in judge_claims(records, ["order"])} == {"no data"}


def test_a_diverged_addon_ranks_last_and_keeps_the_order_from_being_held() -> None:
    records = ranked((5, 4, 3, 2, 1)) + ranked((5, 4, 3, 2, 1), arch="vgg16")
    lost = run("random-label", "focus", 2, arch="vgg16", diverged="nan")
    kept = [r for r in records if r.key != lost.key]
    found = only([*kept, lost], "order")
    assert found.status == "inconclusive"
    assert found.effect == pytest.approx(0.2)
    assert "diverged: 1" in found.detail


def test_kendall_agrees_with_scipy_ties_included() -> None:
    random = np.random.default_rng(0)
    a, b = random.integers(4, size=(2, 50, 5)).astype(float)
    expected = [np.nan_to_num(stats.kendalltau(x, y).statistic) for x, y in zip(a, b, strict=True)]
    np.testing.assert_allclose(kendall(a, b), expected, atol=1e-12)


SLOW = (20.0, 18.0, 14.0, 8.0, 4.0)
QUICK = (20.0, 9.0, 4.0, 1.0, 0.5)
NEVER = (20.0, 19.0, 18.0, 17.0, 16.0)


@pytest.mark.parametrize(
    ("arm", "status"),
    [
        ([QUICK, QUICK, SLOW[:1] + QUICK[2:] + QUICK[-1:]], "held"),
        ([NEVER] * 3, "not held"),
        ([QUICK, QUICK, QUICK, NEVER], "inconclusive"),
        ([QUICK, SLOW, SLOW], "inconclusive"),
    ],
)
def test_focus_gets_there_in_fewer_epochs(arm: Sequence[Sequence[float]], status: str) -> None:
    found = only(both(rua(*[SLOW] * len(arm)), rua(*arm)), "fast")
    assert found.status == status


def test_the_ratio_of_epochs_is_a_geometric_mean() -> None:
    found = only(both(rua(*[SLOW] * 3), rua(QUICK, QUICK, SLOW)), "fast")
    assert found.effect == pytest.approx(float(stats.gmean([0.2, 0.2, 1.0])))


def test_slower_than_the_base_does_not_hold() -> None:
    found = only(both(rua(*[(20.0, 4.0, 4.0, 4.0, 4.0)] * 3), rua(*[SLOW] * 3)), "fast")
    assert found.status == "not held"


def test_adam_moments_are_a_group_of_their_own() -> None:
    records = both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2))
    records += [run("random-label", "focus", s, moments="adam", rua=9.0 + s) for s in range(3)]
    found = [f for f in judge_claims(records, ["focus-rua"]) if f.status != "no data"]
    assert [f.group.rpartition(" SRL-")[2] for f in found] == ["FOCUS", "FOCUS (adam)"]
    assert [f.status for f in found] == ["held", "not held"]


def test_only_the_setting_that_most_methods_share_is_compared() -> None:
    sweep = both(rua(5.0, 5.1, 5.2), rua(50.0, 51.0, 52.0), lr=1.0)
    main = both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2))
    other = both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2), method="scrub")
    found = [f for f in judge_claims(sweep + main + other, ["focus-rua"]) if f.n]
    assert [f.status for f in found] == ["held", "held"]


def test_runs_that_only_their_block_tells_apart_are_judged_apart() -> None:
    first = both(rua(5.0, 5.1, 5.2), rua(1.0, 1.1, 1.2))
    second = both(rua(5.0, 5.1, 5.2), rua(9.0, 9.1, 9.2), block="c")
    found = [f for f in judge_claims(first + second, ["focus-rua"]) if f.n]
    assert [f.status for f in found] == ["held", "not held"]
    assert "(block b)" in found[0].group
    twin = replace(first[0], key="another")
    with pytest.raises(InvalidInput, match="same settings and seed"):
        judge_claims([*first, twin])


def test_an_unknown_claim_is_refused() -> None:
    with pytest.raises(InvalidInput, match="Did you mean 'focus-rua'"):
        judge_claims([], ["focus-ruas"])
