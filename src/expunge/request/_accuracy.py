"""Accuracy in percent with Wilson's score interval."""

from __future__ import annotations

import math

from scipy.special import ndtri

from expunge._errors import InvalidInput
from expunge.evaluation import Estimate, Predictions


def wilson_interval(hits: int, count: int, level: float = 0.95) -> Estimate:
    """A proportion in percent with Wilson's score interval.

    >>> [round(value, 1) for value in wilson_interval(8, 10)]
    [80.0, 49.0, 94.3]
    """
    if count < 1 or not 0 <= hits <= count:
        raise InvalidInput(f"`hits` should be in 0..`count`. (got {hits} of {count})")
    z = float(ndtri(0.5 + level / 2))
    proportion = hits / count
    scale = 1 + z * z / count
    middle = (proportion + z * z / (2 * count)) / scale
    variance = proportion * (1 - proportion) / count + z * z / (4 * count * count)
    half = z * math.sqrt(variance) / scale
    # With no hit, or only hits, the formula gives exactly that bound up to rounding.
    low, high = (0.0 if hits == 0 else middle - half), (1.0 if hits == count else middle + half)
    return Estimate(100 * proportion, 100 * low, 100 * high)


def accuracy_interval(predictions: Predictions, level: float = 0.95) -> Estimate:
    """Accuracy in percent with Wilson's score interval."""
    hits = int((predictions.classes == predictions.labels).sum())
    return wilson_interval(hits, len(predictions.labels), level)
