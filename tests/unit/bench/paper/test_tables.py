"""The paper's two tables, from results at hand."""

from __future__ import annotations

import csv
import io
import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from expunge.bench._publish import write_tables
from expunge.bench._results import BenchResult
from expunge.bench.paper._tables import BENCHMARK, MASKS_NGPLUS, MASKS_SRL, beside_printed
from expunge.bench.tables import OF_TEXTS, TABLES
from expunge.bench.tables._rows import PAPER_METRICS
from expunge.bench.tables._summary import Row, Summary
from tests.unit.bench.making import (
    PAPER_ADDONS,
    over_seeds,
    paper_results,
    reference,
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
    assert upper.metrics == PAPER_METRICS


def test_a_second_ideal_model_is_the_floor_of_every_table() -> None:
    again = [reference("ideal-2", 92.0 + seed, seed=seed) for seed in range(3)]
    results = [*paper_results(), *again]
    assert labels(TABLES["table1"](results)[0])[-1] == "another ideal"
    (table,) = TABLES["table2"](results)
    assert labels(table)[:3] == ["initial", "ideal", "another ideal"]
    assert row(table, "another ideal").values["rua"] == (2.0, 3.0, 4.0)
    assert not table.groups[0].ranked


def test_table_2_has_the_rows_of_the_paper_and_the_rest() -> None:
    (table,) = TABLES["table2"]([*paper_results(), *paper_results(scenario="class:3:0.1")])
    paper = list(BENCHMARK)
    assert [label for label in labels(table) if label in paper] == paper
    assert [group.name for group in table.groups][:2] == ["references", "methods"]
    rest = {"SCRUB-PROB", *(f"NGPlus-{name}" for name in PAPER_ADDONS[1:])}
    assert set(labels(table)) - set(paper) == rest


def test_other_data_make_the_same_tables() -> None:
    for name in ("table1", "table2"):
        (table,) = TABLES[name](paper_results(**DIGITS))
        assert table.title.startswith("digits, small-cnn, 120 images, 50 % random forgetting")
        assert {"SRL-FOCUS", "NGPlus-FOCUS"} <= set(labels(table))


def test_rows_without_results_are_left_out() -> None:
    few = [*references(), *over_seeds([91, 92, 93]), *over_seeds([95, 96], "SRL", "AND")]
    (table,) = TABLES["table2"](few)
    assert labels(table) == ["initial", "ideal", "SRL", "SRL-AND"]
    assert [table.count(r) for r in table.rows] == ["3", "3", "3", "2"]


def test_cells_are_what_numpy_says_of_the_raw_results() -> None:
    results = paper_results()
    (table,) = TABLES["table2"](results)
    for label in ("SRL", "SRL-FOCUS", "SCRUB-AND"):
        for metric in PAPER_METRICS:
            raw = [r.value(metric, 10) for r in results if r.label == label]
            assert row(table, label).mean(metric) == pytest.approx(np.mean(raw))
            assert row(table, label).std(metric) == pytest.approx(np.std(raw, ddof=1))


def swept() -> list[BenchResult]:
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


def test_no_results_make_no_tables(tmp_path: Path) -> None:
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
    assert table.metrics == PAPER_METRICS[1:]
    assert any("MIA entropy" in note for note in table.notes)


PAPER = Path("/work/shared/paper/paper.tex")


def test_ours_stand_beside_the_papers() -> None:
    upper, _, second = TABLES["beside"]([*paper_results(), *paper_results(("NGPlus",), **SVHN)])
    assert upper.metrics[:4] == (
        "mia_entropy, ours",
        "mia_entropy, paper",
        "rua, ours",
        "rua, paper",
    )
    assert upper.cell(row(upper, "SRL-FOCUS"), "rua, paper") == "0.41 ± 0.50"
    assert upper.cell(row(upper, "SRL-FOCUS"), "mia_entropy, paper", short=True) == "0.77±0.03"
    assert upper.cell(row(second, "SCRUB-PROB"), "rua, paper") == ""
    assert "n = 3" in second.footnotes()  # of ours; the paper does not say
    for text in (upper.markdown(), upper.latex(), upper.csv()):
        assert "0.41" in text
    assert "rUA paper" in upper.markdown(notes=False)
    marks = [
        name
        for group in second.groups
        for _, best in second.marked(group)
        for name, is_best in best.items()
        if is_best
    ]
    assert marks
    assert all(name.endswith("ours") for name in marks)


def test_rows_that_only_the_paper_has_are_shown() -> None:
    (table,) = TABLES["table2"]([*references(), *over_seeds([91, 92, 93])])
    side = beside_printed(replace(table, metrics=("rua",)), BENCHMARK)
    assert side.groups[-1].name == "only in the paper"
    assert row(side, "CT").mean("rua, paper") == -16.01
    assert side.metrics == ("rua, ours", "rua, paper")


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_the_papers_numbers_are_those_of_its_source() -> None:
    masks, benchmark = _parsed("tab:masks"), _parsed("tab:benchmark")
    assert masks == MASKS_SRL | MASKS_NGPLUS
    assert benchmark == BENCHMARK
    assert list(benchmark) == list(BENCHMARK)


def _parsed(label: str) -> dict[str, dict[str, tuple[float, float]]]:
    text = PAPER.read_text(encoding="utf-8").partition(f"\\label{{{label}}}")[2]
    text = text.partition(r"\bottomrule")[0].partition(r"\midrule")[2]
    found = {}
    for line in text.splitlines():
        if "&" in line:
            name, *cells = line.split("&")
            name = re.sub(r"\\textbf|\\(?=[A-Z])|[{}$ ]", "", name)
            pairs = [re.findall(r"-?\d+\.\d+", cell) for cell in cells]
            values = {
                m: (float(a), float(b)) for m, (a, b) in zip(PAPER_METRICS, pairs, strict=True)
            }
            found[name.lower() if name in ("Initial", "Ideal") else name] = values
    return found
