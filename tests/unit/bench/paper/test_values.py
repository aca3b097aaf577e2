"""The paper's numbers, as printed and beside ours."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from expunge.bench.paper._values import BENCHMARK, MASKS_NGPLUS, MASKS_SRL, beside_printed
from expunge.bench.tables import TABLES
from expunge.bench.tables._rows import METRIC_NAMES
from expunge.bench.tables._summary import Row, Summary
from tests.unit.bench.making import (
    over_seeds,
    paper_results,
    references,
)

SVHN = {"dataset": "svhn", "arch": "resnet18"}
PAPER = Path("/work/shared/paper/paper.tex")


def labels(summary: Summary) -> list[str]:
    return [row.label for row in summary.rows]


def row(summary: Summary, label: str) -> Row:
    return next(row for row in summary.rows if row.label == label)


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
    assert second.n == 3  # of ours; the paper does not say
    for text in (upper.markdown(), upper.latex(), upper.csv()):
        assert "0.41" in text
    assert "rUA paper" in upper.markdown(notes=False)
    marks = [name for *_, best in second.marked() for name, is_best in best.items() if is_best]
    assert marks
    assert all(name.endswith("ours") for name in marks)


def test_rows_that_only_the_paper_has_are_shown() -> None:
    (table,) = TABLES["table2"]([*references(), *over_seeds([91, 92, 93])])
    side = beside_printed(table, BENCHMARK, metrics=("rua",))
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
                m: (float(a), float(b)) for m, (a, b) in zip(METRIC_NAMES, pairs, strict=True)
            }
            found[name.lower() if name in ("Initial", "Ideal") else name] = values
    return found
