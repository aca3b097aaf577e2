"""The table of stops: where somebody who has no ideal model would end each arm of a sweep.

Every evaluated epoch of every setting is a candidate. Admissible are those at which the forgotten
images are right no more often than test images of their classes, up to half a point; the one with
the highest TA is chosen. What the ideal model says of it, rUA and RMIA, is looked at afterwards.

Deviation: a practitioner would take accuracies on held-out data for the choice, and others to
report. Records have those on test data alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from expunge.bench._records import Record
from expunge.bench._runs import (
    CONSTRAINED_METHODS,
    Arm,
    Sweep,
    TaskRuns,
    group_records,
    select_arms,
)
from expunge.bench.claims._frontier import unseen_gap
from expunge.bench.tables._summary import Column, Row, RowGroup, Summary
from expunge.evaluation import METRICS

METHODS_SHOWN = (*CONSTRAINED_METHODS, "match-unseen")
ADDONS_SHOWN = ("focus", "prob", "and")
LEAST_SETTINGS = 3
TOLERANCE = 0.5
"""Points of the gap that nobody can tell from none: its standard error over 4,500 forgotten and
10,000 test images is 0.7."""
COLUMNS = {
    "seeds": Column("seeds", "seeds with an admissible epoch", "none", "", 0),
    "epoch": Column("epoch", "the chosen epoch", "none", "", 1),
    "lost": Column("TA lost", "initial model's TA minus that of the chosen epoch", "none", "", 2),
    "rua": Column("rUA", METRICS["rua"].description, "none", "points", 2),
    "rmia_auc": Column("RMIA AUC", "AUC of RMIA", "none", "", 3),
    "least": Column("least UA - TA", "least gap to unseen images of any epoch", "none", "", 2),
}


class Stop(NamedTuple):
    """An evaluated epoch of a run, the points of TA it lost, and its gap to unseen images."""

    record: Record
    epoch: int
    lost: float
    gap: float


def stops(records: Iterable[Record]) -> list[Summary]:
    """Where each arm would be stopped without an ideal model, a table per task with a sweep."""
    tables = [_table(runs) for runs in group_records(records) if runs.unlearned]
    return [table for table in tables if table.groups]


def candidates(sweep: Sweep, seed: int) -> list[Stop]:
    """Every evaluated epoch of every setting that a seed was run with; the start is none."""
    found = []
    for seeds in sweep.values():
        record = seeds.get(seed)
        start = None if record is None else record.value("ta", 0)
        if record is None or start is None:
            continue
        for row in record.evaluated:
            gap = unseen_gap(row)
            if row["epoch"] and gap is not None:
                found.append(Stop(record, int(row["epoch"]), start - row["ta"], gap))
    return found


def chosen_stop(stops: Iterable[Stop]) -> Stop | None:
    """The one of highest TA among those no better on forgotten than on unseen images."""
    admissible = (stop for stop in stops if stop.gap <= TOLERANCE)
    return min(admissible, key=lambda stop: (stop.lost, stop.epoch), default=None)


def _table(runs: TaskRuns) -> Summary:
    groups = []
    for method in METHODS_SHOWN:
        base = runs.sweep(Arm(method))
        rows: list[Row] = []
        for arm in select_arms(runs.arms, method, ADDONS_SHOWN):
            sweep = runs.sweep(arm)
            shared = [dials for dials in sweep if dials in base]
            if len(shared) < LEAST_SETTINGS:
                continue
            # A method alone is shown at the settings of its first add-on.
            rows += [] if rows else [_row(Arm(method).label, {d: base[d] for d in shared})]
            rows.append(_row(arm.label, {dials: sweep[dials] for dials in shared}))
        if rows:
            groups.append(RowGroup(Arm(method).label, tuple(rows)))
    notes = (
        "Chosen among all evaluated epochs of all settings of rate and α: forgotten images right "
        f"at most {TOLERANCE:g} points more often than test images of their classes, then the "
        "highest TA",
        "Means over the seeds that have such an epoch; the last column is over all seeds",
    )
    return Summary(
        tuple(groups),
        tuple(COLUMNS),
        title=f"Stopped without an ideal model: {runs.task.title}",
        notes=notes,
        columns=COLUMNS,
    )


def _row(label: str, sweep: Sweep) -> Row:
    seeds = sorted({seed for runs in sweep.values() for seed in runs})
    tried = [found for seed in seeds if (found := candidates(sweep, seed))]
    chosen = [stop for found in tried if (stop := chosen_stop(found)) is not None]
    values = {
        "epoch": tuple(float(stop.epoch) for stop in chosen),
        "lost": tuple(stop.lost for stop in chosen),
        "least": tuple(min(stop.gap for stop in found) for found in tried),
    }
    for metric in ("rua", "rmia_auc"):
        known = (stop.record.value(metric, stop.epoch) for stop in chosen)
        values[metric] = tuple(value for value in known if value is not None)
    return Row(f"{label}, {len(sweep)} settings", values, {"seeds": (len(chosen), math.nan)})
