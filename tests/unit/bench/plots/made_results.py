"""Results, made by hand, that all figures can be drawn from."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np

from expunge.bench._results import BenchResult
from expunge.bench._tasks import TaskResults, group_results
from tests.unit.bench.making import references, run

ADDONS = ("none", "SalUn", "AND", "PROB", "FOCUS")


def variant(values: dict[int, list[float]], *args: Any, **settings: Any) -> list[BenchResult]:
    """Runs of three seeds, given UA by epoch and seed."""
    seeds = range(len(next(iter(values.values()))))
    return [
        run({epoch: row[seed] for epoch, row in values.items()}, *args, seed=seed, **settings)
        for seed in seeds
    ]


def with_histograms(results: list[BenchResult]) -> list[BenchResult]:
    """Results with a histogram of f at epochs 1 and 10: the first seeds lean to the left."""
    found = []
    for result in results:
        shares = np.zeros(50)
        shares[[15, 25, 35]] = [0.5 - 0.1 * result.seed, 0.25, 0.25 + 0.1 * result.seed]
        kept = {"1": shares.tolist(), "10": shares[::-1].tolist()}
        found.append(replace(result, agreement=kept))
    return found


def everything() -> list[BenchResult]:
    """Results that all figures can be drawn from."""
    values = {1: [97.0, 96.0, 98.0], 10: [91.0, 92.0, 93.0]}
    results = references()
    for method in ("SRL", "NGPlus"):
        for addon in ADDONS:
            runs = variant(values, method, addon)
            results += with_histograms(runs) if addon == "FOCUS" else runs
    for method in ("FT", "MSG"):
        results += [replace(result, baseline=True) for result in variant(values, method)]
    for addon, rate in itertools.product(("none", "FOCUS"), (1e-2, 2e-2)):
        results += variant({1: [80.0] * 3, 10: [50.0] * 3}, "SRL", addon, lr=rate, block="sweep")
    return results


def only_task(results: list[BenchResult]) -> TaskResults:
    """The runs of the one task that the results are of."""
    (runs,) = group_results(results)
    return runs
