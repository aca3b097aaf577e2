"""Which rows a table of a task has, in the paper's order, and what they hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from expunge.bench._records import Record
from expunge.bench._runs import CONSTRAINED_METHODS, Arm, TaskRuns, select_arms
from expunge.bench.tables._seed_values import plain, seed_values
from expunge.bench.tables._summary import Row, RowGroup, Summary
from expunge.evaluation._metrics import Metric
from expunge.methods import METHODS
from expunge.update import ADDONS

BASELINES = ("fine-tune", "mask-small-gradients", "conv-transpose")
ADDON_ORDER = ("saliency", "and", "prob", "focus")
SALUN = Arm("random-label", "saliency")
"""SRL with saliency, which the paper calls SalUn and counts among the methods."""


def row_of(
    runs: TaskRuns,
    records: Iterable[Record],
    metrics: Sequence[str],
    label: str,
    epoch: int | None = None,
) -> Row:
    """A row of records that differ in their seed alone, at ``epoch`` (default: the task's)."""
    at = runs.epoch if epoch is None else epoch
    records, cell = list(records), f"{runs.task.title}: {label}"
    return Row(label, {metric: seed_values(records, metric, at, cell) for metric in metrics})


def arm_rows(runs: TaskRuns, arms: Iterable[Arm], metrics: Sequence[str]) -> tuple[Row, ...]:
    """A row per arm, at the task's main dials and epoch."""
    return tuple(row_of(runs, runs.main_arms[arm], metrics, arm.label) for arm in arms)


def ideal_row(runs: TaskRuns, metrics: Sequence[str]) -> Row | None:
    """The row of the ideal models; None where there are no records of them."""
    return row_of(runs, runs.ideal, metrics, "ideal") if runs.ideal else None


def paper_arms() -> list[Arm]:
    """The rows of the paper's protocol."""
    alone = [Arm(method) for method in (*BASELINES, *CONSTRAINED_METHODS)]
    moments = {name: "published" if ADDONS.resolve(name).statistics else "" for name in ADDON_ORDER}
    return [
        *alone,
        *(Arm(m, addon, moments[addon]) for m in CONSTRAINED_METHODS for addon in ADDON_ORDER),
    ]


def absent(runs: TaskRuns, wanted: Iterable[Arm]) -> list[str]:
    """A note on the rows that have no records."""
    missing = [arm.label for arm in wanted if arm not in runs.main_arms]
    return [f"Absent: {', '.join(missing)}"] if missing else []


def task_title(runs: TaskRuns) -> str:
    """A table's title: the task and the epoch that is shown."""
    return f"{runs.task.title}, epoch {runs.epoch}"


def task_notes(runs: TaskRuns) -> tuple[str, ...]:
    """The dials that are shown, how many runs at others are not, and which runs diverged."""
    dials = runs.main_dials
    lr, alpha, batch = (plain(getattr(dials, name, None)) for name in ("lr", "alpha", "batch_size"))
    shown = [run for arm in runs.main_arms.values() for run in arm]
    notes = [f"Learning rate {lr}, α = {alpha}, batches of {batch}"]
    if others := len(runs.unlearned) - len(shown):
        notes[0] += f"; {others} runs at other settings are left out"
    if diverged := [f"{run.label} (seed {run['seed']})" for run in shown if run.diverged]:
        notes.append(f"Diverged, and absent from there on: {', '.join(diverged)}")
    return tuple(notes)


def all_rows(
    runs: TaskRuns,
    metrics: tuple[str, ...],
    *,
    row: Callable[[Sequence[Record], str], Row] | None = None,
    columns: Mapping[str, Metric] | None = None,
) -> Summary:
    """References, methods alone, then the add-ons of each method; all of them compete.

    ``row`` makes a row of records and a label, where it is not simply metrics at the task's epoch.
    """

    def plain_row(records: Sequence[Record], label: str) -> Row:
        return row_of(runs, records, metrics, label)

    make = row or plain_row
    references = {name: make(records, name) for name, records in runs.references.items()}
    groups = [RowGroup("references", tuple(references.values()), ranked=False)]
    for name, arms in _sections(list(runs.main_arms)):
        label = {SALUN: "SalUn"} if name == "methods" else {}
        rows = [make(runs.main_arms[arm], label.get(arm, arm.label)) for arm in arms]
        groups.append(RowGroup(name, tuple(rows)))
    return without_empty_columns(
        Summary(
            tuple(group for group in groups if group.rows),
            metrics,
            references.get("ideal"),
            title=task_title(runs),
            notes=task_notes(runs),
            columns=dict(columns or {}),
            together=True,
        )
    )


def without_empty_columns(summary: Summary) -> Summary:
    """The summary without the columns that no row fills; a note names them."""
    kept = [m for m in summary.metrics if any(row.values.get(m) for row in summary.rows)]
    empty = [summary.heading(m) for m in summary.metrics if m not in kept]
    notes = [f"Not measured: {', '.join(empty)}"] if empty else []
    return replace(summary, metrics=tuple(kept), notes=(*summary.notes, *notes))


def _sections(arms: Sequence[Arm]) -> list[tuple[str, list[Arm]]]:
    """The groups of rows below the references, by name."""
    others = [method for method in METHODS if method not in (*BASELINES, *CONSTRAINED_METHODS)]
    others += [arm.method for arm in arms if arm.method not in METHODS]
    alone: list[Arm] = []
    for method in dict.fromkeys((*BASELINES, *others, *CONSTRAINED_METHODS)):
        alone += select_arms(arms, method, ("none",))
        alone += [SALUN] if method == SALUN.method and SALUN in arms else []
    addons = [*dict.fromkeys((*ADDON_ORDER, *ADDONS, *(arm.addon for arm in arms)))]
    addons.remove("none")
    aggregated = [arm for arm in arms if arm.aggregate]
    sections = [("methods", alone), ("aggregations", aggregated)]
    for method in dict.fromkeys(("scrub", "random-label", "neg-grad-plus", *others)):
        chosen = [arm for arm in select_arms(arms, method, addons) if arm != SALUN]
        sections.append((METHODS.label(method) if method in METHODS else method, chosen))
    return sections
