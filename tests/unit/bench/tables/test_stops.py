"""Where an variant of a sweep would be stopped without an ideal model."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge.bench._results import Result
from expunge.bench.tables import TABLES, make_table
from expunge.bench.tables._stops import TOLERANCE, Stop, chosen_stop, nearest_epoch
from expunge.bench.tables._summary import Row
from tests.unit.bench.making import run
from tests.unit.bench.paper.claims.test_texts import run as text_run

RATES = (1e-4, 2e-4, 4e-4)


def with_gap(result: Result, gap: float) -> Result:
    """Forgotten images of two classes are right ``gap`` points more often than test images."""
    for row in result.epochs:
        row |= {"ua_class_1": row["ta"] + gap - 1, "ta_class_1": row["ta"]}
        row |= {"ua_class_2": row["ta"] + gap + 1, "ta_class_2": row["ta"]}
        row |= {"ta_class_3": 0.0}
    return result


def sweep(addon: str, gaps: tuple[float, ...], seed: int = 0) -> list[Result]:
    """A run for each rate, whose gap to unseen images is given; larger rates lose more TA."""
    return [
        with_gap(run({10: 98.0 - k}, "SRL", addon, seed=seed, lr=rate), gap)
        for k, (rate, gap) in enumerate(zip(RATES, gaps, strict=True))
    ]


def rows_of(results: list[Result]) -> dict[str, Row]:
    (table,) = TABLES["stops"](results)
    return {row.label: row for row in table.rows}


def test_of_the_admissible_epochs_that_of_highest_accuracy_is_chosen() -> None:
    results = sweep("none", (5.0, 4.0, 0.0)) + sweep("FOCUS", (5.0, -1.0, -3.0))
    rows = rows_of(results)
    alone, focus = rows["SRL, 3 settings"], rows["SRL-FOCUS, 3 settings"]
    assert (alone.values["lost"], focus.values["lost"]) == ((3.0,), (2.0,))
    assert (alone.values["abs_rua"], focus.values["abs_rua"]) == ((6.0,), (7.0,))
    assert focus.values["least"] == pytest.approx((-3.0,))


def test_an_arm_that_never_gets_there_has_no_stop_but_a_least_gap() -> None:
    rows = rows_of(sweep("none", (5.0, 4.0, 0.8)) + sweep("FOCUS", (0.0, 0.0, 0.0)))
    alone = rows["SRL, 3 settings"]
    assert alone.mean("seeds") == 0
    assert alone.values["lost"] == ()
    assert alone.values["least"] == pytest.approx((0.8,))


def test_seeds_count_one_by_one() -> None:
    results = [
        *(r for seed in range(3) for r in sweep("none", (5.0, 4.0, 0.0), seed)),
        *(r for seed in range(2) for r in sweep("FOCUS", (5.0, 0.0, 0.0), seed)),
        *sweep("FOCUS", (5.0, 5.0, 5.0), 2),
    ]
    rows = rows_of(results)
    assert rows["SRL, 3 settings"].mean("seeds") == 3
    assert rows["SRL-FOCUS, 3 settings"].mean("seeds") == 2
    assert len(rows["SRL-FOCUS, 3 settings"].values["least"]) == 3


def test_an_add_on_with_fewer_settings_stands_beside_the_method_with_as_few() -> None:
    focus, prob = sweep("FOCUS", (5.0, 5.0, 0.0)), sweep("PROB", (5.0, 5.0, 0.0))
    alone = sweep("none", (5.0, 5.0, 5.0))
    for results in (alone, focus):
        gap = 5.0 if results is alone else 0.0
        results.append(with_gap(run({10: 99.0}, "SRL", results[0].variant.addon, lr=9.0), gap))
    assert list(rows_of(alone + focus + prob)) == [
        "SRL, 4 settings",
        "SRL-FOCUS, 4 settings",
        "SRL, 3 settings",
        "SRL-PROB, 3 settings",
    ]


def test_a_seed_of_one_arm_alone_does_not_count() -> None:
    results = sweep("none", (5.0, 4.0, 0.0)) + sweep("FOCUS", (5.0, 0.0, 0.0))
    both, more = rows_of(results), rows_of(results + sweep("none", (0.0, 0.0, 0.0), seed=1))
    assert both["SRL, 3 settings"] == more["SRL, 3 settings"]


def test_two_settings_are_no_sweep_and_accuracies_by_class_are_needed() -> None:
    results = sweep("none", (5.0, 4.0, 0.0)) + sweep("FOCUS", (5.0, -1.0, -3.0))
    assert TABLES["stops"]([r for r in results if r.hyperparameters.lr < RATES[-1]]) == []
    for result in results:
        for row in result.epochs:
            for name in [name for name in row if "_class_" in name]:
                del row[name]
    alone = rows_of(results)["SRL, 3 settings"]
    assert alone.mean("seeds") == 0
    assert math.isnan(alone.mean("least"))


@given(st.lists(st.tuples(st.floats(-5, 20), st.floats(-20, 20)), min_size=1, max_size=12))
def test_no_admissible_epoch_loses_less_than_the_chosen_one(
    points: list[tuple[float, float]],
) -> None:
    result = run(95.0)
    stops = [Stop(result, epoch, lost, gap) for epoch, (lost, gap) in enumerate(points, start=1)]
    chosen = chosen_stop(stops)
    admissible = [stop for stop in stops if stop.gap <= TOLERANCE]
    assert (chosen is None) == (not admissible)
    if chosen is not None:
        assert chosen.lost == min(stop.lost for stop in admissible)


def test_a_run_is_shown_where_its_memorisation_is_nearest_to_the_ideals() -> None:
    assert nearest_epoch(text_run([(0.4, 0.6), (0.2, 0.5), (-0.1, 0.4), (-0.3, 0.3)])) == 2
    assert nearest_epoch(text_run([(0.1, 0.6), (0.3, 0.5)])) == 1, "the start is no result"


def test_rows_are_means_over_seeds_at_those_epochs() -> None:
    results = [text_run([(0.4, 0.6), (0.2 - 0.1 * s, 0.5), (-0.1, 0.4)], seed=s) for s in range(3)]
    (summary,) = make_table("texts", results)
    (row,) = summary.rows
    assert row.values["epoch"] == (2.0, 1.0, 1.0)
    assert row.values["model_utility"] == (0.4, 0.5, 0.5)
    assert make_table("table2", results) == []
