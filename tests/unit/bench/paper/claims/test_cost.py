"""Claims on time, on results of known truth."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scipy import stats

from expunge.bench.paper.claims import claim_ledger
from tests.unit.bench.paper.claims.made_runs import both, only, rua, run


@pytest.mark.parametrize(
    ("times", "status"),
    [((1.1, 1.12, 1.1), "held"), ((1.6, 1.62, 1.6), "not held"), ((1.0, 1.6), "inconclusive")],
)
def test_the_overhead_is_a_ratio_of_processor_times(times: tuple[float, ...], status: str) -> None:
    results = both([{"time": 2.0}] * 3, [{"time": 2.0 * t} for t in times])
    found = only(results, "overhead")
    assert found.status == status
    assert found.effect == pytest.approx(100 * (stats.gmean(times) - 1))
    assert "processor time" in found.detail


def test_a_warm_up_in_the_first_epoch_is_no_overhead() -> None:
    results = both([{}] * 3, [{}] * 3)
    for result in results[3:]:
        for row in result.epochs[1:]:
            row["processor_seconds"] += 100.0
    assert only(results, "overhead").effect == pytest.approx(0.0)


def test_salun_may_cost_more_where_it_needs_a_third_gradient() -> None:
    times = [{"time": t} for t in (1.4, 1.41, 1.4)]
    results = both([{}] * 3, times, addon="saliency")
    assert only(results, "salun-overhead").status == "held"
    cheap = both([{}] * 3, times, method="neg-grad-plus", addon="saliency")
    assert only(cheap, "overhead").status == "not held"


SLOW = (20.0, 18.0, 14.0, 8.0, 4.0)


QUICK = (20.0, 9.0, 4.0, 1.0, 0.5)


NEVER = (20.0, 19.0, 18.0, 17.0, 16.0)


@pytest.mark.parametrize(
    ("variant", "status"),
    [
        ([QUICK, QUICK, SLOW[:1] + QUICK[2:] + QUICK[-1:]], "held"),
        ([NEVER] * 3, "not held"),
        ([QUICK, QUICK, QUICK, NEVER], "inconclusive"),
        ([QUICK, SLOW, SLOW], "inconclusive"),
    ],
)
def test_focus_gets_there_in_fewer_epochs(variant: Sequence[Sequence[float]], status: str) -> None:
    found = only(both(rua(*[SLOW] * len(variant)), rua(*variant)), "fast")
    assert found.status == status


def test_the_ratio_of_epochs_is_a_geometric_mean() -> None:
    found = only(both(rua(*[SLOW] * 3), rua(QUICK, QUICK, SLOW)), "fast")
    assert found.effect == pytest.approx(float(stats.gmean([0.2, 0.2, 1.0])))


def test_slower_than_the_base_does_not_hold() -> None:
    found = only(both(rua(*[(20.0, 4.0, 4.0, 4.0, 4.0)] * 3), rua(*[SLOW] * 3)), "fast")
    assert found.status == "not held"


@pytest.mark.parametrize(("pace", "status"), [(2.0, "held"), (1.0, "not held")])
def test_competitors_take_twice_as_long(pace: float, status: str) -> None:
    fast, slow = (5.0, 4.0, 3.0, 1.0, 1.0), (5.0, 4.5, 4.0, 3.0, 1.0)
    results = [run("random-label", "focus", s, rua=fast) for s in range(3)]
    rival = slow if pace > 1 else fast
    results += [run("fine-tune", "none", s, rua=rival) for s in range(3)]
    found = only(results, "twice")
    assert found.status == status
    assert found.effect == pytest.approx(pace)


def test_a_competitor_that_never_arrives_is_named() -> None:
    results = [run("random-label", "focus", s, rua=1.0) for s in range(3)]
    results += [run("scrub", "none", s, rua=5.0) for s in range(3)]
    assert "not reached with seed 0, 1, 2" in only(results, "twice").detail


def test_diverged_runs_of_a_competitor_go_by_its_name() -> None:
    results = [run("random-label", "focus", s, rua=1.0) for s in range(3)]
    results += [run("scrub", "none", s, rua=5.0) for s in range(2)]
    results.append(run("scrub", "none", 2, diverged="nan"))
    detail = only(results, "twice").detail
    assert "SCRUB diverged with seed 2" in detail
    assert "add-on" not in detail


def test_bounds_on_cost_are_counted_apart() -> None:
    results = [run("random-label", addon, s) for addon in ("none", "and") for s in range(3)]
    assert claim_ledger(results, ["overhead"]).count.startswith("0 held")
    assert "upper bounds on cost: 1 held" in claim_ledger(results, ["overhead"]).count
