"""The paper's two tables, its numbers beside ours, and all attacks.

The numbers are mean and standard deviation as in ``tab:masks`` and ``tab:benchmark`` of the paper,
which were repeated "several times with different random seeds".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from expunge.bench._results import BenchResult
from expunge.bench._tasks import SECOND_IDEAL, TaskResults, group_results, select_variants
from expunge.bench.paper.claims._metric_shift import ATTACKS
from expunge.bench.tables._rows import (
    ADDON_ORDER,
    PAPER_METRICS,
    all_rows,
    row_of,
    summary_of,
)
from expunge.bench.tables._summary import Row, RowGroup, Summary
from expunge.evaluation import METRICS, Metric
from expunge.methods import METHODS

NOTE = "The paper's are as printed there, over an unnamed number of seeds; the best of ours marked"
DECIMALS = 2
"""How many the paper prints, whatever the metric."""

Printed = dict[str, dict[str, tuple[float, float]]]
"""(mean, std) by row and metric."""


def _printed(**rows: tuple[float, ...]) -> Printed:
    """Rows of mean, std, mean, std, …; underscores in names stand for hyphens."""
    return {
        label.replace("_", "-"): dict(
            zip(PAPER_METRICS, zip(row[::2], row[1::2], strict=True), strict=True)
        )
        for label, row in rows.items()
    }


MASKS_NGPLUS = _printed(
    NGPlus=(0.94, 0.01, 3.13, 0.76, 94.75, 0.54, 99.74, 0.06, 97.98, 0.77, 94.24, 0.74),
    NGPlus_SalUn=(0.93, 0.02, 2.67, 1.37, 94.53, 0.91, 99.73, 0.01, 97.53, 1.42, 93.90, 1.20),
    NGPlus_AND=(0.54, 0.02, -46.14, 7.45, 75.99, 3.39, 88.57, 2.96, 48.67, 7.72, 47.67, 7.91),
    NGPlus_PROB=(0.88, 0.03, 0.43, 1.34, 93.18, 1.29, 99.53, 0.11, 95.24, 1.55, 92.24, 1.75),
    NGPlus_FOCUS=(0.89, 0.02, 0.14, 0.80, 93.42, 0.74, 99.56, 0.04, 94.99, 0.94, 92.25, 1.06),
)
BENCHMARK = _printed(
    initial=(0.91, 0.01, 5.82, 0.84, 92.66, 0.10, 98.63, 0.27, 98.73, 0.27, 93.00, 0.56),
    ideal=(0.84, 0.01, 0.00, 0.00, 92.53, 0.16, 99.56, 0.05, 92.91, 0.71, 100.0, 0.00),
    FT=(0.91, 0.01, 5.15, 0.88, 92.75, 0.15, 99.18, 0.14, 98.3, 0.39, 93.44, 0.52),
    MSG=(0.76, 0.02, -3.20, 1.13, 86.65, 0.56, 93.07, 0.84, 89.96, 0.66, 88.42, 0.69),
    CT=(0.65, 0.08, -16.01, 0.37, 76.87, 0.33, 80.45, 0.27, 77.14, 0.37, 77.51, 0.53),
    SRL=(0.89, 0.01, 4.62, 0.87, 92.77, 0.12, 99.24, 0.16, 97.78, 0.39, 93.21, 0.40),
    SalUn=(0.89, 0.01, 4.70, 0.78, 92.80, 0.14, 99.25, 0.19, 97.85, 0.32, 93.36, 0.41),
    NGPlus=(0.91, 0.01, 3.34, 0.53, 92.71, 0.05, 99.17, 0.13, 96.49, 0.24, 92.85, 0.52),
    SCRUB=(0.91, 0.01, 5.60, 0.74, 92.90, 0.15, 99.18, 0.17, 98.5, 0.18, 93.18, 0.63),
    SCRUB_SalUn=(0.90, 0.01, 5.62, 0.74, 92.92, 0.04, 99.12, 0.18, 98.53, 0.2, 93.13, 0.66),
    SCRUB_AND=(1.00, 0.00, 4.30, 0.66, 92.24, 0.19, 98.83, 0.23, 97.21, 0.31, 92.57, 0.78),
    SCRUB_FOCUS=(0.90, 0.02, 5.21, 0.82, 92.66, 0.17, 99.09, 0.18, 98.12, 0.23, 93.04, 0.65),
    SRL_AND=(0.69, 0.01, 2.30, 0.47, 92.18, 0.08, 98.76, 0.21, 95.45, 0.52, 91.81, 0.41),
    SRL_PROB=(0.76, 0.02, 0.45, 0.36, 91.69, 0.16, 98.71, 0.22, 93.61, 0.74, 90.74, 0.47),
    SRL_FOCUS=(0.77, 0.03, 0.41, 0.50, 91.71, 0.15, 98.75, 0.23, 93.57, 0.34, 90.60, 0.14),
)
MASKS_SRL = {
    **{label: row for label, row in BENCHMARK.items() if label.startswith("SRL")},
    "SRL-SalUn": BENCHMARK["SalUn"],
}


@dataclass(frozen=True)
class PaperTable:
    """A part of a table of the paper: its data, the methods whose add-ons it compares, its rows."""

    table: str
    methods: tuple[str, ...]
    dataset: str
    arch: str
    scenario: str
    rows: Printed


PAPER_TABLES = (
    PaperTable("table1", ("random-label",), "cifar10", "vgg16", "random:0.1", MASKS_SRL),
    PaperTable("table1", ("neg-grad-plus",), "svhn", "resnet18", "random:0.1", MASKS_NGPLUS),
    PaperTable(
        "table2",
        ("scrub", "random-label", "neg-grad-plus"),
        "cifar10",
        "vgg16",
        "random:0.1",
        BENCHMARK,
    ),
)
"""The three: upper and lower part of Table 1 (``tab:masks``), and Table 2 (``tab:benchmark``)."""


def table1(results: Iterable[BenchResult]) -> list[Summary]:
    """Masks compared, a method alone and with each add-on: Table 1, or the same of every task."""
    tasks = group_results(results)
    parts = [part for part in PAPER_TABLES if part.table == "table1"]
    chosen = [(runs, part.methods) for part in parts for runs in tasks if _fits(part, runs)]
    if not chosen:
        both = tuple(method for part in parts for method in part.methods)
        chosen = [(runs, both) for runs in tasks if _has(runs, both)]
    return [masks(runs, methods) for runs, methods in chosen]


def masks(runs: TaskResults, methods: Sequence[str]) -> Summary:
    """Each method alone and with its add-ons, which compete within it; then another ideal model."""
    groups = []
    for method in methods:
        variants = select_variants(runs.main_variants, method, ("none", *ADDON_ORDER))
        rows = (row_of(runs, runs.main_variants[v], PAPER_METRICS, v.label) for v in variants)
        groups.append(RowGroup(METHODS.label(method), tuple(rows)))
    if runs.second_ideal:
        row = row_of(runs, runs.second_ideal, PAPER_METRICS, SECOND_IDEAL)
        groups.append(RowGroup("references", (row,), ranked=False))
    return summary_of(runs, groups, PAPER_METRICS)


def table2(results: Iterable[BenchResult]) -> list[Summary]:
    """The benchmark of references, methods and add-ons: Table 2, or the same of every task."""
    tasks = group_results(results)
    (part,) = (part for part in PAPER_TABLES if part.table == "table2")
    chosen = [runs for runs in tasks if _fits(part, runs)] or tasks
    return [all_rows(runs, PAPER_METRICS) for runs in chosen if runs.unlearned]


def beside(results: Iterable[BenchResult]) -> list[Summary]:
    """Ours beside the paper's: the parts of its tables that there are results of."""
    tasks = group_results(results)
    summaries = []
    for part in PAPER_TABLES:
        for runs in tasks:
            if _fits(part, runs):
                is_first = part.table == "table1"
                summary = masks(runs, part.methods) if is_first else all_rows(runs, PAPER_METRICS)
                side = beside_printed(summary, part.rows)
                title = f"Table {part.table[-1]} of the paper beside ours: {summary.title}"
                summaries.append(replace(side, title=title))
    return summaries


def _fits(part: PaperTable, runs: TaskResults) -> bool:
    names = ("dataset", "arch", "scenario")
    same = all(getattr(runs.task, name) == getattr(part, name) for name in names)
    return same and _has(runs, part.methods)


def _has(runs: TaskResults, methods: Sequence[str]) -> bool:
    return any(variant.method in methods for variant in runs.main_variants)


def attacks(results: Iterable[BenchResult]) -> list[Summary]:
    """All five membership attacks, on every task."""
    columns = {m: replace(METRICS[m], label=METRICS[m].label.removeprefix("MIA ")) for m in ATTACKS}
    summaries = [all_rows(runs, ATTACKS, columns=columns) for runs in _unlearned(results)]
    return [replace(s, title=f"Membership attacks: {s.title}") for s in summaries if s.metrics]


def _unlearned(results: Iterable[BenchResult]) -> list[TaskResults]:
    return [runs for runs in group_results(results) if runs.unlearned]


def beside_printed(summary: Summary, printed: Printed) -> Summary:
    """A summary with, for each metric, a column of ours and one of the paper's.

    Rows go by their labels; those that only the paper has come last. The best of ours are marked,
    by our rule: the MIA nearest to the ideal model's, where the paper prefers the lowest.
    """
    names = tuple(m for m in summary.metrics if m in PAPER_METRICS)
    groups = [
        replace(group, rows=tuple(_beside(row, printed, names) for row in group.rows))
        for group in summary.groups
    ]
    ours = {row.label for row in summary.rows}
    if theirs := [Row(label, {}) for label in printed if label not in ours]:
        rows = tuple(_beside(row, printed, names) for row in theirs)
        groups.append(RowGroup("only in the paper", rows, ranked=False))
    columns: dict[str, Metric] = {}
    for name in names:
        for source in ("ours", "paper"):
            about = METRICS[name]
            columns[f"{name}, {source}"] = Metric(
                label=f"{about.label} {source}",
                definition=about.definition,
                direction=about.direction if source == "ours" else "none",
                unit=about.unit,
                decimals=about.decimals if source == "ours" else DECIMALS,
            )
    return replace(
        summary,
        groups=tuple(groups),
        metrics=tuple(columns),
        columns=columns,
        ideal=_beside(summary.ideal, printed, names) if summary.ideal else None,
        notes=(*summary.notes, NOTE),
    )


def _beside(row: Row, printed: Printed, names: Sequence[str]) -> Row:
    ours = {f"{m}, ours": row.values.get(m, ()) for m in names}
    theirs = printed.get(row.label, {})
    return Row(row.label, ours, {f"{m}, paper": theirs[m] for m in names if m in theirs})
