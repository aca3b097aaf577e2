"""Pivots: means over seeds and over nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from expunge._errors import InvalidInput
from expunge.bench.tables._pivot import FIELDS, pivot
from expunge.bench.tables._summary import Row, Summary
from expunge.evaluation import METRICS
from tests.unit.bench.making import over_seeds, reference, references, run

SRL = [
    *references(),
    *over_seeds([96, 97, 98], "SRL"),
    *over_seeds([91, 90, 92], "SRL", "FOCUS"),
    *over_seeds([80, 85, 81], "SRL", "AND"),
]


def rows(summary: Summary) -> dict[str, Row]:
    return {row.label: row for row in summary.rows}


def best(summary: Summary, name: str) -> set[str]:
    return {row.label for _, row, marks in summary.marked() if marks[name]}


@given(st.lists(st.floats(0, 100), min_size=1, max_size=6))
def test_cells_are_what_numpy_says_of_the_raw_records(values: list[float]) -> None:
    row = rows(pivot(over_seeds(values), metrics=("ua", "rua")))["none"]
    assert row.values["ua"] == tuple(values)
    assert row.mean("rua") == pytest.approx(np.mean(values) - 90)
    assert len(row.values["rua"]) == len(values)
    if len(values) > 1:
        assert row.std("rua") == pytest.approx(np.std(values, ddof=1), abs=1e-9)


def test_the_best_follows_the_direction_of_each_metric() -> None:
    names = ("ua", "ta", "rua", "abs_rua", "rte", "mia_entropy", "auc")
    found = pivot(SRL, metrics=names[:-1])
    assert {name: METRICS[name].direction for name in names} == {
        "ua": "ideal",
        "ta": "higher",
        "rua": "zero",
        "abs_rua": "lower",
        "rte": "lower",
        "mia_entropy": "ideal",
        "auc": "none",
    }
    for name in ("ua", "rua", "abs_rua", "mia_entropy"):
        assert best(found, name) == {"FOCUS"}, name
    assert best(found, "ta") == {"none"}
    assert best(found, "rte") == set()  # all tie


def test_mean_distance_from_zero_is_not_the_distance_of_the_mean() -> None:
    row = rows(pivot(over_seeds([88, 92]), metrics=("rua", "abs_rua")))["none"]
    assert (row.mean("rua"), row.mean("abs_rua")) == (0.0, 2.0)
    assert pivot(over_seeds([88]), metrics=("abs_rua",)).heading("abs_rua") == "|rUA|"


def test_references_stand_on_top_and_do_not_compete() -> None:
    found = pivot(SRL, "label")
    assert [row.label for row in found.rows] == ["initial", "ideal", "SRL", "SRL-FOCUS", "SRL-AND"]
    assert [group.ranked for group in found.groups] == [False, True]
    assert rows(pivot(SRL, "addon"))["ideal"].mean("ua") == 90


@pytest.mark.parametrize("name", ["lr", "alpha", "method", "budget", "block", "batch_size"])
def test_other_settings_are_never_averaged_over(name: str) -> None:
    other = {"lr": 1e-3, "alpha": 0.2, "method": "scrub", "budget": 20, "block": "b"}.get(name, 8)
    results = [run(91, seed=0), run(92, seed=1, **{name: other})]
    with pytest.raises(InvalidInput, match=rf"differ in {name},.*--where {name}=.*add {name} to"):
        pivot(results, "addon")
    labels = [row.label for row in pivot(results, f"addon,{name}").rows]
    assert len(labels) == 2


def test_data_sets_are_kept_apart_even_where_no_cell_mixes_them() -> None:
    results = [run(91, "SRL"), run(92, "NGPlus", dataset="svhn")]
    with pytest.raises(InvalidInput, match=r"differ in dataset.*--where dataset=cifar10"):
        pivot(results, "label")


def test_each_data_set_has_its_own_best_and_ideal() -> None:
    svhn = {"dataset": "svhn"}
    there = [reference("ideal", 70, **svhn), run(71, **svhn), run(90, "SRL", "AND", **svhn)]
    here = [reference("ideal", 90), run(75), run(89, "SRL", "AND")]
    found = pivot([*here, *there], "dataset,label", metrics=("ua",))
    assert best(found, "ua") == {"cifar10, SRL-AND", "svhn, SRL"}


def test_a_seed_twice_is_refused_but_the_same_run_twice_is_one() -> None:
    with pytest.raises(InvalidInput, match="seed 0 appears 2 times"):
        pivot([run(91), run(92)])
    once = run(91)
    assert pivot([once, once]).n == 1


def test_last_epochs_that_differ_are_refused() -> None:
    results = [run({5: 91}, seed=0), run({10: 92}, seed=1)]
    with pytest.raises(InvalidInput, match="last evaluated epoch varies"):
        pivot(results)
    assert rows(pivot(results, metrics=("ua",), epoch=10))["none"].values["ua"] == (92,)


def test_a_run_that_diverged_is_missing_and_said_to_be() -> None:
    results = [run({5: 95, 10: 91}, seed=0), run({5: 60}, seed=1, diverged="loss is nan")]
    found = pivot(results, metrics=("ua",))
    assert rows(found)["none"].values["ua"] == (91,)
    assert any("SRL (seed 1)" in note for note in found.notes)


def test_epochs_across_the_top() -> None:
    results = [*references((0,)), run({1: 98, 10: 91}), run({1: 93, 10: 80}, "SRL", "AND")]
    found = pivot(results, "label", "epoch", ("ua",))
    assert [found.heading(m) for m in found.metrics] == ["epoch 0", "epoch 1", "epoch 10"]
    assert best(found, "ua@epoch=1") == {"SRL-AND"}
    assert best(found, "ua@epoch=10") == {"SRL"}
    assert [rows(found)["ideal"].mean(m) for m in found.metrics] == [90, 90, 90]


def test_settings_across_the_top_are_sorted() -> None:
    results = [
        run(90 + i + 5 * j, "SRL", addon, lr=lr)
        for i, lr in enumerate((1e-2, 1e-4))
        for j, addon in enumerate(("FOCUS", "none"))
    ]
    found = pivot(results, "lr", "addon", ("rua",))
    assert [found.heading(m) for m in found.metrics] == ["none", "FOCUS"]
    assert [row.label for row in found.rows] == ["lr 0.0001", "lr 0.01"]
    assert best(found, "rua@addon=focus") == {"lr 0.01"}


def test_the_ideal_is_known_from_rua_where_its_records_are_filtered_out() -> None:
    found = pivot([r for r in SRL if r.variant.method], metrics=("ua", "mia_entropy"))
    assert best(found, "ua") == {"FOCUS"}
    assert best(found, "mia_entropy") == set()
    assert any("ideal" in note for note in found.notes)


def test_bad_names_are_answered_with_the_known_ones() -> None:
    with pytest.raises(InvalidInput, match=r"colour.*dataset.*label.*metric"):
        pivot(SRL, "colour")
    with pytest.raises(InvalidInput, match=r"Unknown metric 'rub'.*rua.*processor_seconds"):
        pivot(SRL, metrics=("rub",))
    with pytest.raises(InvalidInput, match="room for one metric"):
        pivot(SRL, "method", "addon", ("ua", "ta"))
    with pytest.raises(InvalidInput, match="once"):
        pivot(SRL, "addon,method", "addon", ("ua",))
    with pytest.raises(InvalidInput, match="leave the epoch out"):
        pivot(SRL, "label", "epoch", ("ua",), epoch=10)
    with pytest.raises(InvalidInput, match="no results"):
        pivot([])


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "metric"])
def test_every_field_can_be_rows_or_columns(name: str) -> None:
    results = [reference("initial", 99), reference("ideal", 90), run({1: 95, 10: 91})]
    assert pivot(results, name, metrics=("ua",)).rows
    if name != "label":
        assert pivot(results, "label", name, ("ua",)).metrics
    assert pivot(results, "metric", name, ("ua",)).rows[0].label
