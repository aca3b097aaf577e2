"""The rows of a table: which a task has, in the paper's order, and the values of their cells."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from expunge.bench._results import PAPER_METHODS, BenchResult, BenchRun
from expunge.bench._tasks import TaskResults, select_variants
from expunge.bench.tables import OF_TEXTS, TABLES
from expunge.bench.tables._summary import Row, RowGroup, Summary
from expunge.evaluation import Metric
from expunge.methods import METHODS
from expunge.update import ADDONS

PAPER_METRICS = ("mia_entropy", "rua", "ta", "ra", "ua", "fid")
"""The columns of the paper's tables, in their order."""
BASELINES = ("fine-tune", "mask-small-gradients", "conv-transpose")
ADDON_ORDER = ("saliency", "and", "prob", "focus")
SALUN = BenchRun("random-label", "saliency")
"""SRL with saliency, which the paper calls SalUn and counts among the methods."""


def make_table(name: str, results: Iterable[BenchResult]) -> list[Summary]:
    """A table by name, from the results of its kind; empty where there are none."""
    of_texts = TABLES.name(name) in OF_TEXTS
    chosen = [result for result in results if result.is_text == of_texts]
    return TABLES[name](chosen) if chosen else []


def row_of(
    runs: TaskResults,
    results: Iterable[BenchResult],
    metrics: Sequence[str],
    label: str,
) -> Row:
    """A row of results that differ in their seed alone, at the epoch of the task."""
    by_seed = sorted(results, key=lambda result: result.seed)
    found = {
        metric: [value_at(result, metric, runs.epoch) for result in by_seed] for metric in metrics
    }
    return Row(label, {m: tuple(v for v in found[m] if v is not None) for m in metrics})


def value_at(result: BenchResult, metric: str, epoch: int) -> float | None:
    """A metric at an epoch; a reference has one value for all epochs."""
    value = result.value(metric, None if result.is_reference else epoch)
    return None if value is None or math.isnan(value) else value


def summary_of(
    runs: TaskResults,
    groups: Iterable[RowGroup],
    metrics: Sequence[str],
    ideal: Row | None = None,
    **more: Any,
) -> Summary:
    """A table of a task without empty groups and columns, which a note names."""
    if ideal is None and runs.ideal:
        ideal = row_of(runs, runs.ideal, metrics, "ideal")
    title = f"{runs.task.title}, epoch {runs.epoch}"
    groups = tuple(group for group in groups if group.rows)
    summary = Summary(groups, tuple(metrics), ideal, title, task_notes(runs), **more)
    kept = tuple(m for m in metrics if any(row.values.get(m) for row in summary.rows))
    empty = [summary.metric(metric).label for metric in metrics if metric not in kept]
    unmeasured = [f"Not measured: {', '.join(empty)}"] if empty else []
    return replace(summary, metrics=kept, notes=(*summary.notes, *unmeasured))


def task_notes(runs: TaskResults) -> tuple[str, ...]:
    """The hyperparameters shown, how many runs at others are not, and which runs diverged."""
    main = runs.main_hyperparameters
    settings = (getattr(main, name, None) for name in ("lr", "alpha", "batch_size"))
    lr, alpha, batch = ("none" if value is None else f"{value:g}" for value in settings)
    shown = [run for variant in runs.main_variants.values() for run in variant]
    notes = [f"Learning rate {lr}, α = {alpha}, batches of {batch}"]
    if others := len(runs.unlearned) - len(shown):
        notes[0] += f"; {others} runs at other settings are left out"
    if diverged := [f"{run.label} (seed {run.seed})" for run in shown if run.diverged]:
        notes.append(f"Diverged, and absent from there on: {', '.join(diverged)}")
    return tuple(notes)


def all_rows(
    runs: TaskResults,
    metrics: Sequence[str],
    *,
    row: Callable[[Sequence[BenchResult], str], Row] | None = None,
    columns: Mapping[str, Metric] | None = None,
) -> Summary:
    """References, methods alone, add-ons of each method; ``row`` makes a row of results."""

    def plain_row(results: Sequence[BenchResult], label: str) -> Row:
        return row_of(runs, results, metrics, label)

    make = row or plain_row
    references = {name: make(results, name) for name, results in runs.references.items()}
    groups = [RowGroup("references", tuple(references.values()), ranked=False)]
    for name, variants in _sections(list(runs.main_variants)):
        label = {SALUN: "SalUn"} if name == "methods" else {}
        rows = (make(runs.main_variants[v], label.get(v, v.label)) for v in variants)
        groups.append(RowGroup(name, tuple(rows)))
    return summary_of(
        runs,
        groups,
        metrics,
        ideal=references.get("ideal"),
        columns=dict(columns or {}),
        together=True,
    )


def _sections(variants: Sequence[BenchRun]) -> list[tuple[str, list[BenchRun]]]:
    """The groups of rows below the references, by name."""
    others = [method for method in METHODS if method not in (*BASELINES, *PAPER_METHODS)]
    others += [variant.method for variant in variants if variant.method not in METHODS]
    alone: list[BenchRun] = []
    for method in dict.fromkeys((*BASELINES, *others, *PAPER_METHODS)):
        alone += select_variants(variants, method, ("none",))
        alone += [SALUN] if method == SALUN.method and SALUN in variants else []
    addons = [*dict.fromkeys((*ADDON_ORDER, *ADDONS, *(variant.addon for variant in variants)))]
    addons.remove("none")
    aggregated = [variant for variant in variants if not variant.is_linear]
    sections = [("methods", alone), ("aggregations", aggregated)]
    for method in dict.fromkeys(("scrub", "random-label", "neg-grad-plus", *others)):
        chosen = [
            variant for variant in select_variants(variants, method, addons) if variant != SALUN
        ]
        sections.append((METHODS.label(method) if method in METHODS else method, chosen))
    return sections
