"""The numbers behind fig:distrprob: histograms of f, their zones and their density."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from expunge.bench._records import Record
from expunge.bench.plots._curve_series import Array
from expunge.bench.plots._curves import METHODS_SHOWN
from expunge.bench.plots._groups import (
    PREFERRED_MOMENTS,
    Group,
    main_setting,
    one_a_seed,
)
from expunge.bench.runs._settings import arm_label

UNCERTAIN = (0.4, 0.6)
"""Between these, neither agreement nor disagreement is likely; both are edges of bins."""
BANDWIDTH = 0.02


@dataclass(frozen=True)
class Distribution:
    """Histograms of f, mean over seeds, by epoch."""

    method: str
    moments: str
    seeds: int
    shares: dict[int, Array]

    @property
    def label(self) -> str:
        """The arm and its moments."""
        return f"{arm_label(self.method, 'focus')}, {self.moments} moments"


def distributions_of(group: Group) -> list[Distribution]:
    """FOCUS under the main setting: one method with each kind of moments, then the others."""
    main = main_setting(group)
    fitting = [
        r
        for r in group.runs
        if r["addon"] == "focus" and r.agreement and all(r[k] == v for k, v in main.items())
    ]
    kinds = dict.fromkeys((*PREFERRED_MOMENTS, *(r["moments"] for r in fitting)))
    methods = dict.fromkeys((*METHODS_SHOWN, *(r["method"] for r in fitting)))
    found = []
    for method in methods:
        for kind in kinds:
            runs = one_a_seed([r for r in fitting if (r["method"], r["moments"]) == (method, kind)])
            if runs:
                found.append(Distribution(method, kind, len(runs), _mean_shares(runs)))
    found = [own for own in found if own.shares]
    return sorted(
        found, key=lambda own: (own.method != found[0].method, own.moments != found[0].moments)
    )


def kernel_density(shares: Array, at: Array, bandwidth: float = BANDWIDTH) -> Array:
    """A Gaussian kernel density on [0, 1] from the shares of equal bins, mirrored at 0 and 1."""
    middle = (np.arange(len(shares)) + 0.5) / len(shares)
    weights = np.asarray(shares, dtype=np.float64) / np.sum(shares)
    total = np.zeros_like(at)
    for where in (middle, -middle, 2.0 - middle):
        z = (at[:, None] - where) / bandwidth
        total += np.exp(-0.5 * z * z) @ weights
    return np.asarray(total / (bandwidth * math.sqrt(2 * math.pi)))


def zones(shares: Array) -> tuple[float, float, float]:
    """The shares of parameters that likely disagree, are uncertain, likely agree."""
    low, high = (round(edge * len(shares)) for edge in UNCERTAIN)
    whole = float(np.sum(shares))
    parts = (shares[:low], shares[low:high], shares[high:])
    first, second, third = (float(np.sum(part)) / whole for part in parts)
    return first, second, third


def _mean_shares(runs: Sequence[Record]) -> dict[int, Array]:
    """By epoch, for the epochs that every run has."""
    common = set.intersection(*(set(run.agreement) for run in runs))
    return {
        epoch: np.mean([run.agreement[str(epoch)] for run in runs], axis=0)
        for epoch in sorted(int(key) for key in common)
    }
