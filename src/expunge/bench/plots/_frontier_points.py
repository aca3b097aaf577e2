"""The numbers behind the frontier: points of a sweep, and those that no other point beats."""

from __future__ import annotations

from typing import Any

import numpy as np

from expunge.bench._records import Record
from expunge.bench.plots._curve_series import Array, series_of
from expunge.bench.plots._groups import Group, one_a_seed, preferred
from expunge.bench.runs._settings import dials_of

Sweep = dict[tuple[Any, ...], list[Record]]
"""Records, one a seed, by the values of ``DIALS``."""


def staircase(points: Array) -> Array:
    """The points [n, 2] that no other point beats in both coordinates, smaller being better.

    Sorted by the first coordinate, so the second falls; of equal points one is kept.

    >>> staircase(np.array([[1.0, 3.0], [2.0, 2.0], [2.0, 4.0], [3.0, 2.0]])).tolist()
    [[1.0, 3.0], [2.0, 2.0]]
    """
    best, kept = np.inf, []
    for x, y in sorted(map(tuple, points.tolist())):
        if y < best:
            kept.append((x, y))
            best = y
    return np.array(kept, dtype=np.float64).reshape(-1, 2)


def sweep_of(group: Group, method: str, addon: str) -> Sweep:
    """The runs of an arm by setting, one record a seed."""
    runs = preferred([r for r in group.runs if (r["method"], r["addon"]) == (method, addon)])
    settings = dict.fromkeys(dials_of(r) for r in runs)
    return {key: one_a_seed([r for r in runs if dials_of(r) == key]) for key in settings}


def points_of(sweep: Sweep) -> Array:
    """(TA lost, |rUA|) at every evaluated epoch of every setting, means over seeds, [n, 2]."""
    found = []
    for runs in sweep.values():
        accuracy, distance = series_of(runs, "ta"), series_of(runs, "abs_rua")
        if accuracy is None or distance is None or accuracy.epochs[0] != 0:
            continue
        for k, epoch in enumerate(accuracy.epochs):
            at = np.flatnonzero(distance.epochs == epoch)
            if epoch > 0 and len(at):
                found.append((accuracy.mean[0] - accuracy.mean[k], distance.mean[at[0]]))
    return np.array(found, dtype=np.float64).reshape(-1, 2)


def shared(base: Sweep, other: Sweep) -> tuple[Sweep, Sweep]:
    """Both sweeps at the settings that both have: neither may win by having tried more."""
    keys = [key for key in base if key in other]
    return {key: base[key] for key in keys}, {key: other[key] for key in keys}
