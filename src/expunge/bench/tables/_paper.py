"""The tables by name: the paper's two here, those of its claims beside them.

Each is a function from records to summaries, one a task or a part, that makes do with the records
at hand. Rows without records are left out, and a note says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from expunge._registry import Registry
from expunge.bench._records import Record
from expunge.bench.runs._tasks import Task, tasks
from expunge.bench.tables._claims import attacks, cost, epochs, moments
from expunge.bench.tables._paper_values import METRIC_NAMES, PARTS, Part, beside
from expunge.bench.tables._rows import (
    ADDON_ORDER,
    absent,
    arms_with,
    everything,
    expected,
    fitted,
    references,
)
from expunge.bench.tables._summary import Group, Summary
from expunge.methods import METHODS

Tabulate = Callable[[Iterable[Record]], list[Summary]]

TABLES: Registry[Tabulate] = Registry("table")


def table1(records: Iterable[Record]) -> list[Summary]:
    """Masks compared: a method alone, and with each add-on (Table 1 of the paper).

    Its two parts where there are records of them, else SRL and NGPlus on every task.
    """
    found = tasks(records)
    parts = [part for part in PARTS if part.table == "table1"]
    chosen = [(part, task) for part in parts for task in found if _fits(part, task)]
    if not chosen:
        both = tuple(method for part in parts for method in part.methods)
        return [masks(task, both) for task in found if _has(task, both)]
    summaries = [masks(task, part.methods) for part, task in chosen]
    lost = [part for part in parts if part not in [done for done, _ in chosen]]
    notes = [f"Absent: the paper's part on {part.dataset}, {part.arch}" for part in lost]
    return [replace(s, notes=(*s.notes, *notes)) for s in summaries]


def masks(task: Task, methods: Sequence[str]) -> Summary:
    """Each method alone and with its add-ons; they compete within the method."""
    groups = [
        Group(METHODS.label(method), tuple(task.row(arm, METRIC_NAMES) for arm in arms))
        for method in methods
        if (arms := arms_with(task, method, ("none", *ADDON_ORDER)))
    ]
    ideal = references(task, METRIC_NAMES).get("ideal")
    wanted = [arm for arm in expected() if arm[0] in methods]
    return fitted(
        Summary(
            tuple(groups),
            METRIC_NAMES,
            ideal,
            title=f"{task.title}, epoch {task.epoch}",
            notes=(*task.notes, *absent(task, wanted)),
        )
    )


def table2(records: Iterable[Record]) -> list[Summary]:
    """The benchmark: references, methods, and add-ons of each method (Table 2 of the paper).

    On the paper's task where there are records of it, else on every task. All rows compete.
    """
    found = tasks(records)
    (part,) = (part for part in PARTS if part.table == "table2")
    return [benchmark(t) for t in [t for t in found if _fits(part, t)] or found if t.arms]


def benchmark(task: Task) -> Summary:
    """Everything on a task."""
    summary = everything(task, METRIC_NAMES)
    return replace(summary, notes=(*summary.notes, *absent(task, expected())))


def compared(records: Iterable[Record]) -> list[Summary]:
    """Ours beside the paper's: the parts of its tables that there are records of."""
    found = tasks(records)
    summaries = []
    for part in PARTS:
        for task in found:
            if _fits(part, task):
                is_first = part.table == "table1"
                summary = masks(task, part.methods) if is_first else benchmark(task)
                side = beside(summary, part.rows)
                title = f"Table {part.table[-1]} of the paper beside ours: {summary.title}"
                summaries.append(replace(side, title=title))
    return summaries


for _name, _table in (
    ("table1", table1),
    ("table2", table2),
    ("attacks", attacks),
    ("moments", moments),
    ("epochs", epochs),
    ("cost", cost),
    ("beside", compared),
):
    TABLES.add(_name, _table)


def _fits(part: Part, task: Task) -> bool:
    names = ("dataset", "arch", "scenario")
    same = all(task.settings[name] == getattr(part, name) for name in names)
    return same and _has(task, part.methods)


def _has(task: Task, methods: Sequence[str]) -> bool:
    return any(arm[0] in methods for arm in task.arms)
