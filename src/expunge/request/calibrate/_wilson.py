"""Shares in percent, with Wilson's intervals."""

from __future__ import annotations

import math

from scipy.special import ndtri

from expunge._errors import InvalidInput
from expunge.evaluation import Estimate, Predictions


def wilson(hits: int, count: int, level: float = 0.95) -> Estimate:
    """A share in percent with Wilson's score interval.

    >>> [round(value, 1) for value in wilson(8, 10)]
    [80.0, 49.0, 94.3]
    """
    if count < 1 or not 0 <= hits <= count:
        raise InvalidInput(f"`hits` should be in 0..`count`. (got {hits} of {count})")
    z = float(ndtri(0.5 + level / 2))
    share = hits / count
    scale = 1 + z * z / count
    middle = (share + z * z / (2 * count)) / scale
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / scale
    # At 0 and at all the formula gives exactly that bound, but for rounding.
    low, high = (0.0 if hits == 0 else middle - half), (1.0 if hits == count else middle + half)
    return Estimate(100 * share, 100 * low, 100 * high)


def accuracy_of(predictions: Predictions, level: float = 0.95) -> Estimate:
    """Accuracy in percent, with its interval."""
    hits = int((predictions.classes == predictions.labels).sum())
    return wilson(hits, len(predictions.labels), level)
