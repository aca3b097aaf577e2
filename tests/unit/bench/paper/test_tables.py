"""The paper's two tables, from results at hand."""

from __future__ import annotations

import csv
import io
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from expunge.bench._publish import write_tables
from expunge.bench._results import Result
from expunge.bench.paper._values import BENCHMARK
from expunge.bench.tables import OF_TEXTS, TABLES
from expunge.bench.tables._rows import METRIC_NAMES
from expunge.bench.tables._summary import Row, Summary
from tests.unit.bench.making import (
    PAPER_ADDONS,
    over_seeds,
    paper_results,
    references,
    run,
)

DIGITS = {"dataset": "digits", "arch": "small-cnn", "scenario": "random:0.5", "limit": 120}


SVHN = {"dataset": "svhn", "arch": "resnet18"}


def labels(summary: Summary) -> list[str]:
    return [row.label for row in summary.rows]


def row(summary: Summary, label: str) -> Row:
    return next(row for row in summary.rows if row.label == label)


def test_table_1_has_the_two_parts_of_the_paper() -> None:
    upper, lower = TABLES["table1"](
        [*paper_results(**DIGITS), *paper_results(), *paper_results(("NGPlus",), **SVHN)]
    )
    assert labels(upper) == ["SRL", "SRL-SalUn", "SRL-AND", "SRL-PROB", "SRL-FOCUS"]
    assert labels(lower) == ["NGPlus", *(f"NGPlus-{name}" for name in PAPER_ADDONS[1:])]
    assert upper.title == "CIFAR-10, VGG16, 10 % random forgetting, epoch 10"
    assert upper.metrics == METRIC_NAMES
    assert not any("Absent" in note for note in upper.notes)


def test_a_part_without_records_is_named() -> None:
    (upper,) = TABLES["table1"](paper_results())
    assert any("Absent" in note and "svhn" in note for note in upper.notes)


def test_table_2_has_the_rows_of_the_paper_and_the_rest() -> None:
    (table,) = TABLES["table2"]([*paper_results(), *paper_results(scenario="class:3:0.1")])
    paper = list(BENCHMARK)
    assert [label for label in labels(table) if label in paper] == paper
    assert [group.name for group in table.groups][:2] == ["references", "methods"]
    rest = {"SCRUB-PROB", *(f"NGPlus-{name}" for name in PAPER_ADDONS[1:])}
    assert set(labels(table)) - set(paper) == rest
    assert not any("Absent" in note for note in table.notes)


def test_other_data_make_the_same_tables() -> None:
    for name in ("table1", "table2"):
        (table,) = TABLES[name](paper_results(**DIGITS))
        assert table.title.startswith("digits, small-cnn, 120 images, 50 % random forgetting")
        assert {"SRL-FOCUS", "NGPlus-FOCUS"} <= set(labels(table))


def test_rows_without_records_are_left_out_and_named() -> None:
    few = [*references(), *over_seeds([91, 92, 93]), *over_seeds([95, 96], "SRL", "AND")]
    (table,) = TABLES["table2"](few)
    assert labels(table) == ["initial", "ideal", "SRL", "SRL-AND"]
    (note,) = (note for note in table.notes if "Absent" in note)
    assert "FT, MSG, CT, NGPlus, SCRUB, SRL-SalUn, SRL-PROB" in note
    assert [table.count(r) for r in table.rows] == ["3", "3", "3", "2"]


def test_cells_are_what_numpy_says_of_the_raw_records() -> None:
    results = paper_results()
    (table,) = TABLES["table2"](results)
    for label in ("SRL", "SRL-FOCUS", "SCRUB-AND"):
        for metric in METRIC_NAMES:
            raw = [r.value(metric, 10) for r in results if r.label == label]
            assert row(table, label).mean(metric) == pytest.approx(np.mean(raw))
            assert row(table, label).std(metric) == pytest.approx(np.std(raw, ddof=1))


def swept() -> list[Result]:
    """SRL alone and with FOCUS at four settings, 24 runs."""
    return [
        run({1: 50.0, 10: 50.0}, "SRL", addon, seed=seed, lr=lr, alpha=alpha, block="frontier")
        for lr, alpha in itertools.product((5e-4, 1e-3), (0.02, 0.05))
        for addon in ("none", "FOCUS")
        for seed in range(3)
    ]


def test_sweeps_do_not_mix_in() -> None:
    main, sweep = paper_results(), swept()
    for name in ("table1", "table2", "attacks"):
        for first, second in zip(TABLES[name](main), TABLES[name]([*sweep, *main]), strict=True):
            assert first.csv() == second.csv()
            assert any("24 runs at other settings" in note for note in second.notes)


def test_one_setting_in_two_blocks_makes_two_tables() -> None:
    first, second = TABLES["table2"]([*paper_results(), *over_seeds([1, 2, 3], block="other")])
    assert row(first, "SRL").mean("ua") != row(second, "SRL").mean("ua") == 2
    assert labels(second) == ["initial", "ideal", "SRL"]


def test_no_records_make_no_tables(tmp_path: Path) -> None:
    assert all(TABLES[name]([]) == [] for name in TABLES)
    assert all(isinstance(TABLES[name](references()), list) for name in TABLES)
    assert write_tables([], tmp_path) == []


def test_every_table_is_written_in_three_formats(tmp_path: Path) -> None:
    results = [*paper_results(), *swept(), *paper_results(("NGPlus",), **SVHN)]
    written = write_tables(results, tmp_path)
    assert {path.name for path in written} == {
        f"{name}.{ending}"
        for name in TABLES
        if name not in OF_TEXTS
        for ending in ("md", "tex", "csv")
    }
    assert all(path.stat().st_size > 0 for path in written)
    lines = list(csv.DictReader(io.StringIO((tmp_path / "table1.csv").read_text())))
    assert len({line["part"] for line in lines}) == 2
    text = (tmp_path / "table1.tex").read_text()
    assert re.findall(r"\\label\{(.*)\}", text) == ["tab:table1", "tab:table1-2"]


DIGITS = {"dataset": "digits", "arch": "small-cnn", "scenario": "random:0.5", "limit": 120}


def test_published_moments_are_plain_and_adam_is_named() -> None:
    adam = [
        run({1: 98.0, 10: 90.5}, "SRL", addon, seed=seed, moments="adam")
        for addon in ("PROB", "FOCUS")
        for seed in range(3)
    ]
    results = [*adam, *paper_results()]
    (table,) = TABLES["table2"](results)
    assert row(table, "SRL-FOCUS").mean("ua") > 92
    assert row(table, "SRL-FOCUS (adam)").mean("ua") == 90.5


def test_attacks_are_five_and_left_out_where_they_were_not_made() -> None:
    (table,) = TABLES["attacks"](paper_results())
    assert len(table.metrics) == 5
    blind = paper_results()
    for result in blind:
        for epoch in result.epochs:
            for name in [name for name in epoch if name.startswith("mia_")]:
                del epoch[name]
    assert TABLES["attacks"](blind) == []
    (table,) = TABLES["table2"](blind)
    assert table.metrics == METRIC_NAMES[1:]
    assert any("MIA entropy" in note for note in table.notes)
