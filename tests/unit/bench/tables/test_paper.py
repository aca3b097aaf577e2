"""The paper's two tables, from records at hand."""

from __future__ import annotations

import csv
import io
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from expunge._errors import InvalidInput
from expunge.bench._records import Record
from expunge.bench.tables._paper import write_tables
from expunge.bench.tables._paper_values import (
    BENCHMARK,
    METRIC_NAMES,
)
from expunge.bench.tables._registry import OF_TEXTS, TABLES
from expunge.bench.tables._summary import Row, Summary
from tests.unit.bench.making import (
    PAPER_ADDONS,
    over_seeds,
    paper_records,
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
        [*paper_records(**DIGITS), *paper_records(), *paper_records(("NGPlus",), **SVHN)]
    )
    assert labels(upper) == ["SRL", "SRL-SalUn", "SRL-AND", "SRL-PROB", "SRL-FOCUS"]
    assert labels(lower) == ["NGPlus", *(f"NGPlus-{name}" for name in PAPER_ADDONS[1:])]
    assert upper.title == "CIFAR-10, VGG16, 10 % random forgetting, epoch 10"
    assert upper.metrics == METRIC_NAMES
    assert not any("Absent" in note for note in upper.notes)


def test_a_part_without_records_is_named() -> None:
    (upper,) = TABLES["table1"](paper_records())
    assert any("Absent" in note and "svhn" in note for note in upper.notes)


def test_table_2_has_the_rows_of_the_paper_and_the_rest() -> None:
    (table,) = TABLES["table2"]([*paper_records(), *paper_records(scenario="class:3:0.1")])
    paper = list(BENCHMARK)
    assert [label for label in labels(table) if label in paper] == paper
    assert [group.name for group in table.groups][:2] == ["references", "methods"]
    rest = {"SCRUB-PROB", *(f"NGPlus-{name}" for name in PAPER_ADDONS[1:])}
    assert set(labels(table)) - set(paper) == rest
    assert not any("Absent" in note for note in table.notes)


def test_other_data_make_the_same_tables() -> None:
    for name in ("table1", "table2"):
        (table,) = TABLES[name](paper_records(**DIGITS))
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
    records = paper_records()
    (table,) = TABLES["table2"](records)
    for label in ("SRL", "SRL-FOCUS", "SCRUB-AND"):
        for metric in METRIC_NAMES:
            raw = [r.value(metric, 10) for r in records if r.label == label]
            assert row(table, label).mean(metric) == pytest.approx(np.mean(raw))
            assert row(table, label).std(metric) == pytest.approx(np.std(raw, ddof=1))


def swept() -> list[Record]:
    """SRL alone and with FOCUS at four settings, 24 runs."""
    return [
        run({1: 50.0, 10: 50.0}, "SRL", addon, seed=seed, lr=lr, alpha=alpha, block="frontier")
        for lr, alpha in itertools.product((5e-4, 1e-3), (0.02, 0.05))
        for addon in ("none", "FOCUS")
        for seed in range(3)
    ]


def test_sweeps_do_not_mix_in() -> None:
    main, sweep = paper_records(), swept()
    for name in ("table1", "table2", "attacks", "epochs", "cost"):
        for first, second in zip(TABLES[name](main), TABLES[name]([*sweep, *main]), strict=True):
            assert first.csv() == second.csv()
            assert any("24 runs at other settings" in note for note in second.notes)


def test_one_setting_in_two_blocks_is_refused() -> None:
    with pytest.raises(InvalidInput, match="differ in block"):
        TABLES["table2"]([*paper_records(), *over_seeds([1, 2, 3], block="other")])


def test_no_records_make_no_tables(tmp_path: Path) -> None:
    assert all(TABLES[name]([]) == [] for name in TABLES)
    assert all(isinstance(TABLES[name](references()), list) for name in TABLES)
    assert write_tables([], tmp_path) == []


def test_every_table_is_written_in_three_formats(tmp_path: Path) -> None:
    records = [*paper_records(), *swept(), *paper_records(("NGPlus",), **SVHN)]
    written = write_tables(records, tmp_path)
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
    assert write_tables(records, tmp_path, ["cost"])[0].name == "cost.md"
    with pytest.raises(InvalidInput, match="Unknown table"):
        write_tables(records, tmp_path, ["tabel9"])
