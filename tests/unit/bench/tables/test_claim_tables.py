"""The tables behind the claims: moments, attacks, epochs, cost."""

from __future__ import annotations

import pytest

from expunge.bench.tables._paper_values import (
    METRIC_NAMES,
)
from expunge.bench.tables._registry import TABLES
from expunge.bench.tables._summary import Row, Summary
from tests.unit.bench.making import (
    paper_records,
    reference,
    run,
)

DIGITS = {"dataset": "digits", "arch": "small-cnn", "scenario": "random:0.5", "limit": 120}


def labels(summary: Summary) -> list[str]:
    return [row.label for row in summary.rows]


def row(summary: Summary, label: str) -> Row:
    return next(row for row in summary.rows if row.label == label)


def test_published_moments_are_plain_and_adam_is_named() -> None:
    adam = [
        run({1: 98.0, 10: 90.5}, "SRL", addon, seed=seed, moments="adam")
        for addon in ("PROB", "FOCUS")
        for seed in range(3)
    ]
    records = [*adam, *paper_records()]
    (table,) = TABLES["table2"](records)
    assert row(table, "SRL-FOCUS").mean("ua") > 92
    assert row(table, "SRL-FOCUS (adam)").mean("ua") == 90.5
    (moments,) = TABLES["moments"](records)
    pairs = {group.name: [r.label for r in group.rows] for group in moments.groups}
    assert pairs["SRL-PROB"] == ["SRL-PROB", "SRL-PROB (adam)"]
    assert pairs["NGPlus-FOCUS"] == ["NGPlus-FOCUS"]
    assert not any("Absent" in note for note in moments.notes)
    (alone,) = TABLES["moments"](paper_records())
    assert any("adam" in note for note in alone.notes)


def test_attacks_are_five_and_left_out_where_they_were_not_made() -> None:
    (table,) = TABLES["attacks"](paper_records())
    assert len(table.metrics) == 5
    blind = paper_records()
    for record in blind:
        for epoch in record.epochs:
            for name in [name for name in epoch if name.startswith("mia_")]:
                del epoch[name]
    assert TABLES["attacks"](blind) == []
    (table,) = TABLES["table2"](blind)
    assert table.metrics == METRIC_NAMES[1:]
    assert any("MIA entropy" in note for note in table.notes)


def test_epochs_shows_those_that_were_scored() -> None:
    rua, ta = TABLES["epochs"](paper_records())
    assert rua.metrics == ("rua@epoch=1", "rua@epoch=10")
    assert row(rua, "SRL").mean("rua@epoch=1") == pytest.approx(8.0)
    assert row(ta, "ideal").mean("ta@epoch=10") == 80.0


def test_cost_is_relative_to_the_same_seed_without_add_on() -> None:
    records = [
        *(run(91, seed=s, metrics={"seconds": 10.0 * (s + 1)}) for s in range(3)),
        *(run(91, "SRL", "AND", seed=s, metrics={"seconds": 12.0 * (s + 1)}) for s in range(3)),
        reference("ideal", 90),
    ]
    (table,) = TABLES["cost"](records)
    assert row(table, "SRL-AND").values["rte_ratio"] == pytest.approx((1.2, 1.2, 1.2))
    assert row(table, "SRL-AND").values["processor_ratio"] == pytest.approx((1.0, 1.0, 1.0))
    assert row(table, "SRL").values.get("rte_ratio", ()) == ()
    assert row(table, "ideal").mean("rte") == 100.0
