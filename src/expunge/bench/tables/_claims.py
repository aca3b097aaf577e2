"""Tables behind the paper's claims: attacks, moments, early epochs, cost."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from expunge.bench._records import Record
from expunge.bench.runs._cells import PROCESSOR, value_at
from expunge.bench.runs._tasks import EPOCH, Task, tasks
from expunge.bench.tables._paper_values import METRIC_NAMES
from expunge.bench.tables._rows import arms_with, everything, fitted, references
from expunge.bench.tables._summary import Column, Group, Row, Summary
from expunge.evaluation import METRICS

ATTACKS = tuple(
    f"mia_{name}" for name in ("correctness", "confidence", "logits", "entropy", "modified_entropy")
)
EPOCHS = (1, 2, 5, EPOCH)


def attacks(records: Iterable[Record]) -> list[Summary]:
    """All five membership attacks, on every task."""
    columns = {m: replace(METRICS[m], label=METRICS[m].label.removeprefix("MIA ")) for m in ATTACKS}
    found = [everything(task, ATTACKS, columns=columns) for task in tasks(records) if task.arms]
    return [replace(s, title=f"Membership attacks: {s.title}") for s in found if s.metrics]


def moments(records: Iterable[Record]) -> list[Summary]:
    """FOCUS and PROB with the moments of the published code, and with Adam's as in the text."""
    return [_moments(task) for task in tasks(records) if _statistical(task)]


def epochs(records: Iterable[Record]) -> list[Summary]:
    """rUA and TA early and late, on every task: one table each."""
    return [
        summary
        for task in tasks(records)
        if task.arms
        for metric in ("rua", "ta")
        if (summary := _over_epochs(task, metric)).metrics
    ]


def cost(records: Iterable[Record]) -> list[Summary]:
    """Times, and their ratio to the same method without add-on, seed by seed."""
    found = [_cost(task) for task in tasks(records) if task.arms]
    return [summary for summary in found if summary.metrics]


def _statistical(task: Task) -> list[tuple[str, str]]:
    """The methods and add-ons that use moments."""
    used = (arm[:2] for arm, runs in task.arms.items() if any(run["moments"] for run in runs))
    return list(dict.fromkeys(used))


def _moments(task: Task) -> Summary:
    groups = []
    for method, addon in _statistical(task):
        arms = arms_with(task, method, (addon,))
        rows = tuple(task.row(arm, METRIC_NAMES) for arm in arms)
        groups.append(Group(rows[0].label.partition(" ")[0], rows))
    kinds = {arm[2] for arm in task.arms if arm[:2] in _statistical(task)}
    lost = [name for name, kind in (("published", ""), ("adam", "adam")) if kind not in kinds]
    notes = [f"Absent: records with the moments {' and '.join(lost)}"] if lost else []
    return fitted(
        Summary(
            tuple(groups),
            METRIC_NAMES,
            references(task, METRIC_NAMES).get("ideal"),
            title=f"{task.title}, epoch {task.epoch}",
            notes=("Plain names have the published moments", *task.notes, *notes),
        )
    )


def _over_epochs(task: Task, metric: str) -> Summary:
    about = METRICS[metric]
    shown = [epoch for epoch in EPOCHS if epoch in task.evaluated] or task.evaluated
    columns = {f"{metric}@epoch={e}": replace(about, label=f"epoch {e}") for e in shown}

    def row(records: list[Record], label: str) -> Row:
        values = {}
        for name, epoch in zip(columns, shown, strict=True):
            values[name] = task.row_of(records, (metric,), label, epoch).values[metric]
        return Row(label, values)

    title = f"{about.label} by epoch: {task.title}"
    return replace(everything(task, tuple(columns), row=row, columns=columns), title=title)


def _cost(task: Task) -> Summary:
    ratio = Column("RTE / base", "RTE over that of the method alone", "none", "", least=2)
    columns = {
        "rte": replace(METRICS["rte"], label="RTE, s"),
        "processor_seconds": replace(PROCESSOR, label="processor, s"),
        "rte_ratio": ratio,
        "processor_ratio": replace(ratio, label="processor / base"),
    }
    times = ("rte", "processor_seconds")

    def row(records: list[Record], label: str) -> Row:
        values = dict(task.row_of(records, times, label).values)
        method = records[0]["method"]
        base = {r["seed"]: r for r in task.arms.get((method, "none", ""), [])}
        if method and records[0]["addon"] != "none":
            for name, metric in zip(("rte_ratio", "processor_ratio"), times, strict=True):
                values[name] = _ratios(records, base, metric, task.epoch)
        return Row(label, values)

    summary = everything(task, tuple(columns), row=row, columns=columns)
    found = (run.environment for runs in task.arms.values() for run in runs)
    machines = dict.fromkeys(
        f"{e.get('processor', 'unknown')}, {e.get('cores')} cores" for e in found if e
    )
    notes = [f"Measured on {'; '.join(machines)}"] if machines else []
    notes += ["References: the time of training"] if task.references else []
    title = f"Cost: {task.title}, epoch {task.epoch}"
    return replace(summary, title=title, notes=(*summary.notes, *notes))


def _ratios(
    records: list[Record], base: dict[int, Record], metric: str, epoch: int
) -> tuple[float, ...]:
    found = []
    for record in sorted(records, key=lambda r: r["seed"]):
        if record["seed"] in base:
            own, other = (value_at(r, metric, epoch) for r in (record, base[record["seed"]]))
            found += [own / other] if own is not None and other else []
    return tuple(found)
