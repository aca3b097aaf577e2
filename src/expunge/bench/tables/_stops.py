"""Tables of runs that stopped at an epoch of their own: without an ideal model, or beside one.

``stops`` shows where somebody who has no ideal model would end each variant of a sweep. Every
evaluated epoch of every setting is a candidate. Admissible are those at which the model is right on
forgotten images no more often than on test images of their classes, up to half a point; the one
with the highest TA is chosen. The ideal model judges the choice afterwards, by rUA and RMIA.

Deviation: a practitioner would take accuracies on held-out data for the choice, and others to
report. Results have those on test data alone.

``texts`` shows language models, which forget at different speeds: each at the evaluated epoch whose
exact memorisation of the forgotten records is nearest to the ideal model's. Rows have forgotten
alike, as nearly as the epochs allow, and what they kept can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from expunge.bench._results import Result
from expunge.bench._runs import Variant
from expunge.bench._sweeps import (
    MIN_SETTINGS,
    SWEPT_ADDONS,
    SWEPT_METHODS,
    balanced,
    seeds_of,
    unseen_gap,
)
from expunge.bench._tasks import Sweep, TaskResults, group_results, select_variants
from expunge.bench.tables._rows import all_rows, task_notes
from expunge.bench.tables._summary import Row, RowGroup, Summary
from expunge.evaluation import METRICS, Metric

TOLERANCE = 0.5
"""Points of the gap that nobody can tell from none: its standard error over 4,500 forgotten and
10,000 test images is 0.7."""
COLUMNS = {
    "seeds": Metric("seeds", "seeds with an admissible epoch", "none", "", 0),
    "epoch": Metric("epoch", "the chosen epoch", "none", "", 1),
    "lost": Metric("TA lost", "initial model's TA minus that of the chosen epoch", "none", "", 2),
    "abs_rua": Metric("|rUA|", "distance of rUA from zero", "none", "points", 2),
    "rmia_auc": Metric("RMIA AUC", METRICS["rmia_auc"].definition, "none", "", 3),
    "least": Metric("least UA - TA", "least gap to unseen images of any epoch", "none", "", 2),
}


class Stop(NamedTuple):
    """An evaluated epoch of a run, the points of TA it lost, and its gap to unseen images."""

    result: Result
    epoch: int
    lost: float
    gap: float


def stops(results: Iterable[Result]) -> list[Summary]:
    """Where each variant would be stopped without an ideal model, a table per task with a sweep."""
    tables = [_table(runs) for runs in group_results(results) if runs.unlearned]
    return [table for table in tables if table.groups]


def candidates(sweep: Sweep, seed: int) -> list[Stop]:
    """Every evaluated epoch of every setting that a seed was run with, epoch 0 excluded."""
    found = []
    for seeds in sweep.values():
        result = seeds[seed]
        start = result.value("ta", 0)
        for row in result.evaluated:
            gap = unseen_gap(row)
            if row["epoch"] and gap is not None and start is not None:
                found.append(Stop(result, int(row["epoch"]), start - row["ta"], gap))
    return found


def chosen_stop(stops: Iterable[Stop]) -> Stop | None:
    """The one of highest TA among those no better on forgotten than on unseen images."""
    admissible = (stop for stop in stops if stop.gap <= TOLERANCE)
    return min(admissible, key=lambda stop: (stop.lost, stop.epoch), default=None)


def _table(runs: TaskResults) -> Summary:
    groups = []
    for method in SWEPT_METHODS:
        rows: dict[tuple[object, ...], Row] = {}
        for variant in select_variants(runs.variants, method, SWEPT_ADDONS):
            # Add-ons with other settings have a row of the method alone of their own.
            base, addon = balanced((runs.sweep(Variant(method)), runs.sweep(variant)), MIN_SETTINGS)
            if base:
                settings = f", {len(base)} settings"
                rows.setdefault(tuple(base), _row(Variant(method).label + settings, base))
                rows[variant, *base] = _row(variant.label + settings, addon)
        if rows:
            groups.append(RowGroup(Variant(method).label, tuple(rows.values())))
    notes = (
        "Chosen among all evaluated epochs of all settings of rate and α: forgotten images right "
        f"at most {TOLERANCE:g} points more often than test images of their classes, then the "
        "highest TA",
        "Means over the seeds that have such an epoch; the last column is over all seeds",
        "An add-on is to be compared with the method alone at as many settings",
    )
    return Summary(
        tuple(groups),
        tuple(COLUMNS),
        title=f"Stopped without an ideal model: {runs.task.title}",
        notes=notes,
        columns=COLUMNS,
    )


def _row(label: str, sweep: Sweep) -> Row:
    tried = [found for seed in seeds_of(sweep) if (found := candidates(sweep, seed))]
    chosen = [stop for found in tried if (stop := chosen_stop(found)) is not None]
    values = {
        "epoch": tuple(float(stop.epoch) for stop in chosen),
        "lost": tuple(stop.lost for stop in chosen),
        "least": tuple(min(stop.gap for stop in found) for found in tried),
    }
    for metric in ("abs_rua", "rmia_auc"):
        known = (stop.result.value(metric, stop.epoch) for stop in chosen)
        values[metric] = tuple(value for value in known if value is not None)
    return Row(label, values, {"seeds": (len(chosen), math.nan)})


TEXTS_SHOWN = (
    "epoch",
    "gap_exact_memorisation",
    "forget_quality",
    "model_utility",
    "exact_memorisation",
    "extraction_strength",
    "probability",
    "rouge_l",
    "truth_ratio",
    "retain_rouge_l",
    "general_rouge_l",
    "auc_loss",
    "auc_min_k",
    "privacy_leakage",
)
TEXT_COLUMNS = {
    "epoch": Metric("epoch", "the epoch that is shown", "none", "", 1),
    "gap_exact_memorisation": Metric(
        "EM gap", "exact memorisation minus the ideal model's", "zero", "-1 to 1", 3
    ),
}


def texts(results: Iterable[Result]) -> list[Summary]:
    """Forget quality, utility and memorisation, a table per task."""
    return [_text_table(runs) for runs in group_results(results) if runs.unlearned]


def nearest_epoch(result: Result) -> int | None:
    """The epoch, past the start, at which a run's memorisation is nearest to the ideal model's."""
    rows = [row for row in result.evaluated if row.get("gap_exact_memorisation") is not None]
    later = [row for row in rows if row["epoch"]] or rows
    if not later:
        return None
    best = min(later, key=lambda row: (abs(row["gap_exact_memorisation"]), row["epoch"]))
    return int(best["epoch"])


def _text_table(runs: TaskResults) -> Summary:
    def row(results: Sequence[Result], label: str) -> Row:
        return Row(label, {name: _values(results, name) for name in TEXTS_SHOWN})

    summary = all_rows(runs, TEXTS_SHOWN, row=row, columns=TEXT_COLUMNS)
    note = (
        "Each run at the evaluated epoch whose exact memorisation of the forgotten records is "
        "nearest to the ideal model's"
    )
    return replace(summary, title=runs.task.title, notes=(note, *task_notes(runs)))


def _values(results: Iterable[Result], name: str) -> tuple[float, ...]:
    values = []
    for result in results:
        epoch = nearest_epoch(result)
        value = epoch if name == "epoch" else result.value(name, epoch)
        if value is not None and not (name == "epoch" and result.is_reference):
            values.append(float(value))
    return tuple(values)
