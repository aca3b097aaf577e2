"""The numbers behind a curve: a metric over the evaluated epochs, mean and spread over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from expunge.bench._records import Record
from expunge.plotting import Array

FAR = 3.0
"""A curve that goes this many times further than the others does not set the limits."""


@dataclass(frozen=True)
class Series:
    """A metric: epochs [E] and values [seeds, E]."""

    epochs: Array
    values: Array

    @property
    def mean(self) -> Array:
        """Mean over the seeds, [E]."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def std(self) -> Array:
        """Standard deviation over the seeds (n - 1), [E]; zeros for a single seed."""
        if len(self.values) < 2:
            return np.zeros(self.values.shape[1])
        return np.asarray(self.values.std(axis=0, ddof=1))


def series_of(records: Sequence[Record], metric: str) -> Series | None:
    """A metric at the evaluated epochs that every record has, so that a mean is over all seeds."""
    epochs = sorted({row["epoch"] for record in records for row in record.evaluated})
    table = [[record.value(metric, epoch) for record in records] for epoch in epochs]
    complete = [k for k, row in enumerate(table) if None not in row]
    if not complete:
        return None
    values = np.array([table[k] for k in complete], dtype=np.float64).T
    return Series(np.array([epochs[k] for k in complete], dtype=np.float64), values)


def level_of(references: Sequence[Record], metric: str) -> float | None:
    """The mean of a metric over reference models; None where none has it."""
    values = [v for record in references if (v := record.value(metric)) is not None]
    return float(np.mean(values)) if values else None


@dataclass(frozen=True)
class Limits:
    """The range of an axis, and the lowest or highest value of each curve that leaves it."""

    low: float
    high: float
    outside: dict[str, float]


def limits_of(
    curves: Mapping[str, Series],
    level: float | None = None,
    possible: tuple[float, float] = (-np.inf, np.inf),
) -> Limits:
    """The range of an axis that shows all curves except those that collapse.

    A curve's reach is how far its mean goes from where it starts. In the order of their reach, the
    first curve beyond the better half that goes :data:`FAR` times as far as the one before it (and
    as the ideal's level) is left out, and with it all that follow. Bands that pass what is
    ``possible`` do not count.
    """
    # Leave out the curves that go far beyond the others.
    reach = {name: float(np.abs(s.mean - s.mean[0]).max()) for name, s in curves.items()}
    order = sorted(reach, key=lambda name: reach[name])
    start = np.median([s.mean[0] for s in curves.values()])
    floor = 0.0 if level is None else abs(level - float(start))
    kept = order
    for k in range((len(order) + 1) // 2, len(order)):
        before = max(reach[order[k - 1]], floor)
        if 0 < FAR * before < reach[order[k]]:
            kept = order[:k]
            break

    # Fit the range to the bands of the others, and to the ideal's level.
    fitted = [curves[name] for name in kept]
    bands = [s.mean - s.std for s in fitted] + [s.mean + s.std for s in fitted]
    bands += [] if level is None else [np.array([level])]
    low, high = float(np.min(np.concatenate(bands))), float(np.max(np.concatenate(bands)))
    margin = 0.07 * (high - low) or 0.02 * max(abs(high), 1.0)
    low, high = max(low, possible[0]) - margin, min(high, possible[1]) + margin

    # How far the curves go that were left out.
    outside = {}
    for name in curves:
        if name not in kept:
            mean = curves[name].mean
            outside[name] = float(mean[np.argmax(np.maximum(low - mean, mean - high))])
    return Limits(low, high, outside)
