"""Which rows a table of a task has, in the paper's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from expunge.bench._records import Record
from expunge.bench.runs._tasks import Arm, Task
from expunge.bench.tables._summary import Group, Row, Summary
from expunge.evaluation._metrics import Metric
from expunge.methods import METHODS
from expunge.update import ADDONS

BASELINES = ("fine-tune", "mask-small-gradients", "conv-transpose")
BASES = ("random-label", "neg-grad-plus", "scrub")
ADDON_ORDER = ("saliency", "and", "prob", "focus")
SALUN: Arm = ("random-label", "saliency", "")
"""SRL with saliency, which the paper calls SalUn and counts among the methods."""


def expected() -> list[Arm]:
    """The rows of the paper's protocol."""
    alone = [(method, "none", "") for method in (*BASELINES, *BASES)]
    return [*alone, *((method, addon, "") for method in BASES for addon in ADDON_ORDER)]


def absent(task: Task, wanted: Iterable[Arm]) -> list[str]:
    """A note of the rows that have no records."""
    lost = [
        METHODS.label(method) + ("" if addon == "none" else f"-{ADDONS.label(addon)}")
        for method, addon, moments in wanted
        if (method, addon, moments) not in task.arms
    ]
    return [f"Absent: {', '.join(lost)}"] if lost else []


def arms_with(task: Task, method: str, addons: Sequence[str]) -> list[Arm]:
    """The ways to unlearn with a method and some add-ons; the published moments come first."""
    own = [arm for arm in task.arms if arm[0] == method and arm[1] in addons]
    return sorted(own, key=lambda arm: (addons.index(arm[1]), arm[2] != "", arm[2]))


def references(task: Task, metrics: Sequence[str]) -> dict[str, Row]:
    """Initial and ideal model, as far as there are records."""
    names = [name for name in ("initial", "ideal") if name in task.references]
    return {name: task.row_of(task.references[name], metrics, name) for name in names}


def everything(
    task: Task,
    metrics: tuple[str, ...],
    *,
    row: Callable[[list[Record], str], Row] | None = None,
    columns: Mapping[str, Metric] | None = None,
) -> Summary:
    """References, methods alone, then the add-ons of each method; all of them compete.

    ``row`` makes a row of records and a label, where it is not simply metrics at the task's epoch.
    """

    def plain_row(records: list[Record], label: str) -> Row:
        return task.row_of(records, metrics, label)

    make = row or plain_row
    known = {name: make(task.references[name], name) for name in references(task, ())}
    groups = [Group("references", tuple(known.values()), ranked=False)]
    for name, arms in _sections(task):
        label = {SALUN: "SalUn"} if name == "methods" else {}
        rows = [make(task.arms[arm], label.get(arm, task.labels[arm])) for arm in arms]
        groups.append(Group(name, tuple(rows)))
    return fitted(
        Summary(
            tuple(group for group in groups if group.rows),
            metrics,
            known.get("ideal"),
            title=f"{task.title}, epoch {task.epoch}",
            notes=task.notes,
            columns=dict(columns or {}),
            together=True,
        )
    )


def fitted(summary: Summary) -> Summary:
    """Without the columns that no row fills."""
    kept = [m for m in summary.metrics if any(row.values.get(m) for row in summary.rows)]
    lost = [summary.heading(m) for m in summary.metrics if m not in kept]
    notes = [f"Not measured: {', '.join(lost)}"] if lost else []
    return replace(summary, metrics=tuple(kept), notes=(*summary.notes, *notes))


def _sections(task: Task) -> list[tuple[str, list[Arm]]]:
    others = [m for m in METHODS if m not in (*BASELINES, *BASES)]
    others += [arm[0] for arm in task.arms if arm[0] not in METHODS]
    alone: list[Arm] = []
    for method in dict.fromkeys((*BASELINES, *others, *BASES)):
        alone += arms_with(task, method, ("none",))
        alone += [SALUN] if method == SALUN[0] and SALUN in task.arms else []
    addons = [*dict.fromkeys((*ADDON_ORDER, *ADDONS, *(arm[1] for arm in task.arms)))]
    addons.remove("none")
    sections = [("methods", alone)]
    for method in dict.fromkeys(("scrub", "random-label", "neg-grad-plus", *others)):
        arms = [arm for arm in arms_with(task, method, addons) if arm != SALUN]
        sections.append((METHODS.label(method) if method in METHODS else method, arms))
    return sections
