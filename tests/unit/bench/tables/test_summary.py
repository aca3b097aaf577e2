"""Tables: means and spreads, the best of each group, and every format alike."""

from __future__ import annotations

import csv
import io
import math

import pytest
from rich.console import Console

from expunge.bench.tables._summary import Row, RowGroup, Summary

IDEAL = Row("ideal", {"ua": (90.0, 92.0), "ta": (80.0, 80.0), "rua": (0.0, 0.0), "rte": (9.0, 9.0)})
A = Row("A", {"ua": (93.0, 95.0), "ta": (79.0, 81.0), "rua": (3.0, 3.0), "rte": (2.0, 1.0)})
B = Row("B", {"ua": (90.0, 91.0), "ta": (75.0, 76.0), "rua": (-1.0, -1.0), "rte": (3.0, 4.0)})
SUMMARY = Summary(
    (RowGroup("reference", (IDEAL,), ranked=False), RowGroup("SRL", (A, B))),
    ("ua", "ta", "rua", "rte"),
    ideal=IDEAL,
)


def test_mean_and_sample_deviation() -> None:
    assert A.mean("ua") == 94.0
    assert A.std("ua") == pytest.approx(math.sqrt(2))


def test_one_seed_has_no_deviation() -> None:
    row = Row("one", {"ta": (50.0,)})
    assert math.isnan(row.std("ta"))
    assert SUMMARY.cell(row, "ta") == "50.00"


def test_a_metric_that_was_not_measured_is_empty() -> None:
    assert SUMMARY.cell(A, "fid") == ""


def test_best_follows_the_direction_of_the_metric() -> None:
    group = SUMMARY.groups[1]
    best = {metric: SUMMARY.best(group, metric) for metric in SUMMARY.metrics}
    assert best == {"ua": {"B"}, "ta": {"A"}, "rua": {"B"}, "rte": {"A"}}


def test_references_are_not_ranked_and_a_full_tie_marks_nobody() -> None:
    assert SUMMARY.best(SUMMARY.groups[0], "ta") == frozenset()
    same = RowGroup("tie", (A, Row("A2", A.values)))
    assert SUMMARY.best(same, "ta") == frozenset()


def test_markdown_marks_the_best_in_bold() -> None:
    lines = SUMMARY.markdown(notes=False).splitlines()
    assert lines[0] == "|  | UA | TA | rUA | RTE |"
    assert lines[3].startswith("| A | 94.00 ± 1.41 | **80.00 ± 1.41** |")
    assert len({line.count("|") for line in lines}) == 1


def test_csv_holds_the_numbers_unrounded() -> None:
    rows = list(csv.DictReader(io.StringIO(SUMMARY.csv())))
    row = next(r for r in rows if (r["label"], r["metric"]) == ("A", "ua"))
    assert (float(row["mean"]), float(row["std"])) == (94.0, A.std("ua"))
    assert (row["n"], row["best"], row["unit"]) == ("2", "0", "%")


def test_the_terminal_table_fits_eighty_columns() -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(SUMMARY.terminal("title"))
    text = console.export_text()
    assert "…" not in text
    assert "80.0±1.4*" in text


def test_equal_means_tie_in_spite_of_rounding() -> None:
    rows = (Row("A", {"ta": (93.33333, 95.0)}), Row("B", {"ta": (94.16667, 94.16667)}))
    third = Row("C", {"ta": (50.0, 51.0)})
    summary = Summary((RowGroup("g", (*rows, third)),), ("ta",))
    assert summary.best(summary.groups[0], "ta") == {"A", "B"}


def test_groups_can_compete_as_one() -> None:
    groups = (
        RowGroup("a", (Row("A", {"ta": (1.0,)}),)),
        RowGroup("b", (Row("B", {"ta": (2.0,)}),)),
    )
    apart, together = (Summary(groups, ("ta",), together=way) for way in (False, True))
    assert [apart.best(group, "ta") for group in groups] == [set(), set()]
    assert [together.best(group, "ta") for group in groups] == [set(), {"B"}]
