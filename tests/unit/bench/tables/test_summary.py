"""Tables: means and spreads, the best of each group, and every format alike."""

from __future__ import annotations

import csv
import io
import math
import re

import pytest
from rich.console import Console

from expunge.bench.paper._tables import MASKS_SRL, beside_printed
from expunge.bench.tables import make_table
from expunge.bench.tables._summary import Row, RowGroup, Summary, latex_escape
from tests.unit.bench.making import over_seeds, references

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


EQUAL = Summary(
    (
        RowGroup(
            "reference", (Row("ideal", {"ua": (90.0, 92.0), "rua": (0.0, 0.0)}),), ranked=False
        ),
        RowGroup("a", (Row("A_1 & 50%", {"ua": (93.0, 95.0), "rua": (-3.0, -4.0)}),)),
        RowGroup(
            "b",
            (
                Row("B", {"ua": (91.0, 91.0), "rua": (-1.0, -1.5)}),
                Row("C", {"ua": (99.0, 91.0), "rua": (9.0, 3.0)}),
            ),
        ),
    ),
    ("ua", "rua", "abs_rua"),
    title="Table of {things} #1",
)
UNEQUAL = Summary(
    (RowGroup("a", (Row("A", {"ua": (93.0, 95.0)}), Row("B", {"ua": (91.0,), "ta": (1.0, 2.0)}))),),
    ("ua", "ta"),
)
(TABLE2,) = make_table("table2", [*references(), *over_seeds([96, 97, 98])])
BESIDE = beside_printed(TABLE2, MASKS_SRL)


def printed(summary: Summary, width: int = 200) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(summary.terminal())
    return console.export_text()


def body(text: str) -> list[str]:
    """The lines of a tabular that hold cells."""
    return [line for line in text.splitlines() if line.endswith(r"\\")]


def cells(line: str) -> int:
    """How many columns a line fills."""
    spans = [int(n) - 1 for n in re.findall(r"\\multicolumn\{(\d+)\}", line)]
    return len(re.findall(r"(?<!\\)&", line)) + 1 + sum(spans)


@pytest.mark.parametrize("summary", [EQUAL, UNEQUAL, BESIDE], ids=["equal", "unequal", "beside"])
def test_latex_is_well_formed(summary: Summary) -> None:
    text = summary.latex(label="tab:x")
    opened = re.findall(r"\\begin\{(\w+)\}", text)
    assert opened == re.findall(r"\\end\{(\w+)\}", text)[::-1] == ["table", "tabular"]
    plain = re.sub(r"\\[{}]", "", text)
    assert plain.count("{") == plain.count("}")
    assert len(re.findall(r"(?<!\\)\$", text)) % 2 == 0
    (columns,) = re.findall(r"\\begin\{tabular\}\{(\w+)\}", text)
    assert {cells(line) for line in body(text)} == {len(columns)}
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(f"\\{rule}\n") == 1
    spans = [tuple(map(int, span)) for span in re.findall(r"cmidrule\(lr\)\{(\d+)-(\d+)\}", text)]
    assert all(2 <= first <= last <= len(columns) for first, last in spans)
    assert r"\label{tab:x}" in text


def test_latex_marks_the_best_and_escapes() -> None:
    text = EQUAL.latex()
    assert r"A\_1 \& 50\%" in text
    assert r"\caption{Table of \{things\} \#1. Mean $\pm$ std over seeds" in text
    assert r"\textbf{$-$1.25 $\pm$ 0.35}" in text
    assert text.count(r"\textbf") == 1
    assert r"\textbar{}rUA\textbar{}" in text
    assert text.count(r"\cmidrule(lr){2-4}") == 2


@pytest.mark.parametrize("sign", list("&%$#_{}"))
def test_special_signs_are_escaped(sign: str) -> None:
    assert latex_escape(sign) == f"\\{sign}"
    assert "\\" in latex_escape("\\")
    assert "~" not in latex_escape("~")


def test_n_is_in_every_format() -> None:
    assert (EQUAL.has_n_column, UNEQUAL.has_n_column) == (False, True)
    assert "n = 2" in printed(EQUAL)
    assert "n = 2" in EQUAL.markdown()
    assert "$n = 2$" in EQUAL.latex()
    assert ",%,2," in EQUAL.csv()


def test_n_is_told_row_by_row_where_it_differs() -> None:
    assert re.search(r"A .* 2\s*$", printed(UNEQUAL), re.MULTILINE)
    assert re.search(r"B .* 1-2\s*$", printed(UNEQUAL), re.MULTILINE)
    lines = UNEQUAL.markdown(notes=False).splitlines()
    assert lines[0].endswith("| n |")
    assert lines[2].endswith("| 2 |")
    assert body(UNEQUAL.latex())[-1].endswith(r"& 1--2 \\")


def test_markdown_keeps_bars_out_of_its_cells() -> None:
    lines = EQUAL.markdown(notes=False).splitlines()
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in lines}) == 1
