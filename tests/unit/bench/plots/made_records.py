"""Records, made by hand, that all figures can be drawn from."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from expunge.bench._records import Record
from expunge.bench._runs import TaskRuns, group_records
from tests.unit.bench.making import references, run

ADDONS = ("none", "SalUn", "AND", "PROB", "FOCUS")


def arm(values: dict[int, list[float]], *args: Any, **settings: Any) -> list[Record]:
    """Runs of three seeds, given UA by epoch and seed."""
    seeds = range(len(next(iter(values.values()))))
    return [
        run({epoch: row[seed] for epoch, row in values.items()}, *args, seed=seed, **settings)
        for seed in seeds
    ]


def with_histograms(records: list[Record]) -> list[Record]:
    """Records with a histogram of f at epochs 1 and 10: the first seeds lean to the left."""
    found = []
    for record in records:
        shares = np.zeros(50)
        shares[[15, 25, 35]] = [0.5 - 0.1 * record["seed"], 0.25, 0.25 + 0.1 * record["seed"]]
        kept = {"1": shares.tolist(), "10": shares[::-1].tolist()}
        found.append(replace(record, agreement=kept))
    return found


def everything() -> list[Record]:
    """Records that all figures can be drawn from."""
    values = {1: [97.0, 96.0, 98.0], 10: [91.0, 92.0, 93.0]}
    records = references()
    for method in ("SRL", "NGPlus"):
        for addon in ADDONS:
            runs = arm(values, method, addon)
            records += with_histograms(runs) if addon == "FOCUS" else runs
    for method in ("FT", "MSG"):
        records += [replace(record, baseline=True) for record in arm(values, method)]
    for addon, rate in itertools.product(("none", "FOCUS"), (1e-2, 2e-2)):
        records += arm({1: [80.0] * 3, 10: [50.0] * 3}, "SRL", addon, lr=rate, block="sweep")
    return records


def only_task(records: list[Record]) -> TaskRuns:
    """The runs of the one task that the records are of."""
    (runs,) = group_records(records)
    return runs
