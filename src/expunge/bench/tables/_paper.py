"""The tables by name: the paper's two here, those of its claims beside them.

Each is a function from records to summaries, one per task or part. Rows without records are left
out, and a note says so.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from expunge._files import write_text
from expunge.bench._records import Record
from expunge.bench._runs import CONSTRAINED_METHODS, TaskRuns, group_records, select_arms
from expunge.bench.tables._formats import csv_text
from expunge.bench.tables._paper_values import METRIC_NAMES, PAPER_TABLES, PaperTable, beside
from expunge.bench.tables._registry import TABLES, make_table
from expunge.bench.tables._rows import (
    ADDON_ORDER,
    absent,
    all_rows,
    arm_rows,
    ideal_row,
    paper_arms,
    row_of,
    task_notes,
    task_title,
    without_empty_columns,
)
from expunge.bench.tables._summary import RowGroup, Summary
from expunge.methods import METHODS
from expunge.update import ADDONS

OVERVIEW = ("ua", "ra", "ta", "rua", "fid", "mia_entropy", "rte")
"""The columns of :func:`overview`."""


def table1(records: Iterable[Record]) -> list[Summary]:
    """Masks compared: a method alone, and with each add-on (Table 1 of the paper).

    Its two parts where there are records of them, else SRL and NGPlus on every task.
    """
    tasks = group_records(records)
    parts = [part for part in PAPER_TABLES if part.table == "table1"]
    chosen = [(part, runs) for part in parts for runs in tasks if _fits(part, runs)]
    if not chosen:
        both = tuple(method for part in parts for method in part.methods)
        return [masks(runs, both) for runs in tasks if _has(runs, both)]
    summaries = [masks(runs, part.methods) for part, runs in chosen]
    missing = [part for part in parts if part not in [done for done, _ in chosen]]
    notes = [f"Absent: the paper's part on {part.dataset}, {part.arch}" for part in missing]
    return [replace(s, notes=(*s.notes, *notes)) for s in summaries]


def masks(runs: TaskRuns, methods: Sequence[str]) -> Summary:
    """Each method alone and with its add-ons; they compete within the method."""
    groups = [
        RowGroup(METHODS.label(method), arm_rows(runs, arms, METRIC_NAMES))
        for method in methods
        if (arms := select_arms(runs.main_arms, method, ("none", *ADDON_ORDER)))
    ]
    wanted = [arm for arm in paper_arms() if arm.method in methods]
    return without_empty_columns(
        Summary(
            tuple(groups),
            METRIC_NAMES,
            ideal_row(runs, METRIC_NAMES),
            title=task_title(runs),
            notes=(*task_notes(runs), *absent(runs, wanted)),
        )
    )


def table2(records: Iterable[Record]) -> list[Summary]:
    """The benchmark: references, methods, and add-ons of each method (Table 2 of the paper).

    On the paper's task where there are records of it, else on every task. All rows compete.
    """
    tasks = group_records(records)
    (part,) = (part for part in PAPER_TABLES if part.table == "table2")
    chosen = [runs for runs in tasks if _fits(part, runs)] or tasks
    return [benchmark(runs) for runs in chosen if runs.unlearned]


def benchmark(runs: TaskRuns) -> Summary:
    """All rows of a task."""
    summary = all_rows(runs, METRIC_NAMES)
    return replace(summary, notes=(*summary.notes, *absent(runs, paper_arms())))


def overview(records: Iterable[Record]) -> list[Summary]:
    """References and baselines, then each method alone and with every add-on.

    They compete within the method, and baselines with each other.
    """
    return [_overview(runs) for runs in group_records(records) if runs.unlearned]


def _overview(runs: TaskRuns) -> Summary:
    references = (row_of(runs, of, OVERVIEW, name) for name, of in runs.references.items())
    alone = [arm for arm in runs.main_arms if arm.method not in CONSTRAINED_METHODS]
    groups = [
        RowGroup("references", tuple(references), ranked=False),
        RowGroup("baselines", arm_rows(runs, alone, OVERVIEW)),
    ]
    for method in CONSTRAINED_METHODS:
        arms = select_arms(runs.main_arms, method, list(ADDONS))
        groups.append(RowGroup(METHODS.label(method), arm_rows(runs, arms, OVERVIEW)))
    return without_empty_columns(
        Summary(
            tuple(group for group in groups if group.rows),
            OVERVIEW,
            ideal_row(runs, OVERVIEW),
            title=task_title(runs),
            notes=task_notes(runs),
        )
    )


def compared(records: Iterable[Record]) -> list[Summary]:
    """Ours beside the paper's: the parts of its tables that there are records of."""
    tasks = group_records(records)
    summaries = []
    for part in PAPER_TABLES:
        for runs in tasks:
            if _fits(part, runs):
                is_first = part.table == "table1"
                summary = masks(runs, part.methods) if is_first else benchmark(runs)
                side = beside(summary, part.rows)
                title = f"Table {part.table[-1]} of the paper beside ours: {summary.title}"
                summaries.append(replace(side, title=title))
    return summaries


def write_tables(
    records: Iterable[Record], folder: str | Path, names: Sequence[str] | None = None
) -> list[Path]:
    """Write tables as ``name.md``, ``.tex`` and ``.csv`` (default: all of them).

    A table that the records have nothing for is not written.
    """
    records, folder = list(records), Path(folder)
    chosen = [TABLES.name(name) for name in (TABLES if names is None else names)]
    written = []
    for name in chosen:
        if summaries := make_table(name, records):
            texts = {
                "md": "\n".join(summary.markdown() for summary in summaries),
                "tex": "\n".join(
                    summary.latex(label=f"tab:{name}" + (f"-{k}" if k > 1 else ""))
                    for k, summary in enumerate(summaries, start=1)
                ),
                "csv": _joined_csv(summaries),
            }
            for ending, text in texts.items():
                write_text(folder / f"{name}.{ending}", text)
                written.append(folder / f"{name}.{ending}")
    return written


def _joined_csv(summaries: Sequence[Summary]) -> str:
    """Several summaries in one file, whose first column ``part`` is the title."""
    header: list[str] = []
    rows: list[list[str]] = []
    for summary in summaries:
        header, *lines = csv.reader(io.StringIO(summary.csv()))
        rows += [[summary.title, *line] for line in lines]
    return csv_text(["part", *header], rows)


def _fits(part: PaperTable, runs: TaskRuns) -> bool:
    names = ("dataset", "arch", "scenario")
    same = all(getattr(runs.task, name) == getattr(part, name) for name in names)
    return same and _has(runs, part.methods)


def _has(runs: TaskRuns, methods: Sequence[str]) -> bool:
    return any(arm.method in methods for arm in runs.main_arms)
