"""Tables behind the paper's claims: attacks, moments, early epochs, cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from expunge.bench._records import Record
from expunge.bench._runs import PAPER_EPOCH, Arm, TaskRuns, group_records, select_arms
from expunge.bench.tables._paper_values import METRIC_NAMES
from expunge.bench.tables._rows import (
    all_rows,
    arm_rows,
    ideal_row,
    row_of,
    task_notes,
    task_title,
    without_empty_columns,
)
from expunge.bench.tables._seed_values import PROCESSOR, value_at
from expunge.bench.tables._summary import Column, Row, RowGroup, Summary
from expunge.evaluation import METRICS

ATTACKS = tuple(
    f"mia_{name}" for name in ("correctness", "confidence", "logits", "entropy", "modified_entropy")
)
EPOCHS = (1, 2, 5, PAPER_EPOCH)


def attacks(records: Iterable[Record]) -> list[Summary]:
    """All five membership attacks, on every task."""
    columns = {m: replace(METRICS[m], label=METRICS[m].label.removeprefix("MIA ")) for m in ATTACKS}
    summaries = [all_rows(runs, ATTACKS, columns=columns) for runs in _unlearned(records)]
    return [replace(s, title=f"Membership attacks: {s.title}") for s in summaries if s.metrics]


def moments(records: Iterable[Record]) -> list[Summary]:
    """FOCUS and PROB with the moments of the published code, and with Adam's as in the text."""
    return [_moments(runs) for runs in _unlearned(records) if _arms_with_moments(runs)]


def epochs(records: Iterable[Record]) -> list[Summary]:
    """rUA and TA early and late, on every task: one table each."""
    return [
        summary
        for runs in _unlearned(records)
        for metric in ("rua", "ta")
        if (summary := _over_epochs(runs, metric)).metrics
    ]


def cost(records: Iterable[Record]) -> list[Summary]:
    """Times, and their ratio to the same method without add-on, seed by seed."""
    summaries = [_cost(runs) for runs in _unlearned(records)]
    return [summary for summary in summaries if summary.metrics]


def _unlearned(records: Iterable[Record]) -> list[TaskRuns]:
    return [runs for runs in group_records(records) if runs.unlearned]


def _arms_with_moments(runs: TaskRuns) -> list[Arm]:
    return [arm for arm in runs.main_arms if arm.moments]


def _moments(runs: TaskRuns) -> Summary:
    arms = _arms_with_moments(runs)
    groups = []
    for method, addon in dict.fromkeys((arm.method, arm.addon) for arm in arms):
        rows = arm_rows(runs, select_arms(runs.main_arms, method, (addon,)), METRIC_NAMES)
        groups.append(RowGroup(Arm(method, addon).label, rows))
    kinds = {arm.moments for arm in arms}
    missing = [kind for kind in ("published", "adam") if kind not in kinds]
    notes = [f"Absent: records with the moments {' and '.join(missing)}"] if missing else []
    return without_empty_columns(
        Summary(
            tuple(groups),
            METRIC_NAMES,
            ideal_row(runs, METRIC_NAMES),
            title=task_title(runs),
            notes=("Plain names have the published moments", *task_notes(runs), *notes),
        )
    )


def _over_epochs(runs: TaskRuns, metric: str) -> Summary:
    about, evaluated = METRICS[metric], runs.evaluated_epochs
    shown = [epoch for epoch in EPOCHS if epoch in evaluated] or evaluated
    columns = {f"{metric}@epoch={e}": replace(about, label=f"epoch {e}") for e in shown}

    def row(records: Sequence[Record], label: str) -> Row:
        values = {}
        for name, epoch in zip(columns, shown, strict=True):
            values[name] = row_of(runs, records, (metric,), label, epoch).values[metric]
        return Row(label, values)

    title = f"{about.label} by epoch: {runs.task.title}"
    return replace(all_rows(runs, tuple(columns), row=row, columns=columns), title=title)


def _cost(runs: TaskRuns) -> Summary:
    ratio = Column("RTE / base", "RTE over that of the method alone", "none", "", least=2)
    columns = {
        "rte": replace(METRICS["rte"], label="RTE, s"),
        "processor_seconds": replace(PROCESSOR, label="processor, s"),
        "rte_ratio": ratio,
        "processor_ratio": replace(ratio, label="processor / base"),
    }
    times = ("rte", "processor_seconds")

    def row(records: Sequence[Record], label: str) -> Row:
        values = dict(row_of(runs, records, times, label).values)
        method = records[0]["method"]
        if method and records[0]["addon"] != "none":
            base = runs.at_main(Arm(method))
            for name, metric in zip(("rte_ratio", "processor_ratio"), times, strict=True):
                values[name] = _ratios(records, base, metric, runs.epoch)
        return Row(label, values)

    summary = all_rows(runs, tuple(columns), row=row, columns=columns)
    environments = (run.environment for arm in runs.main_arms.values() for run in arm)
    machines = dict.fromkeys(
        f"{e.get('processor', 'unknown')}, {e.get('cores')} cores" for e in environments if e
    )
    notes = [f"Measured on {'; '.join(machines)}"] if machines else []
    notes += ["References: the time of training"] if runs.references else []
    title = f"Cost: {task_title(runs)}"
    return replace(summary, title=title, notes=(*summary.notes, *notes))


def _ratios(
    records: Sequence[Record], base: Mapping[int, Record], metric: str, epoch: int
) -> tuple[float, ...]:
    """The metric over that of the base run with the same seed, by seed."""
    ratios = []
    for record in sorted(records, key=lambda r: r["seed"]):
        if record["seed"] in base:
            value, rival = (value_at(r, metric, epoch) for r in (record, base[record["seed"]]))
            ratios += [value / rival] if value is not None and rival else []
    return tuple(ratios)
