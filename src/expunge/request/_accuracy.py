"""Accuracy in percent with its interval: Wilson's of proportions, Student's of means."""

from __future__ import annotations

import math

from scipy.special import ndtri, stdtrit

from expunge._errors import InvalidInput
from expunge.evaluation import Estimate, Predictions
from expunge.evaluation.svm._landmarks import Array

FEW = 20
"""With fewer forgotten records, no histogram of them is written, and their AUCs and means have one
decimal: together with the data and the models, more would say which records they are."""


def decimals_of(records: int) -> int:
    """To how many decimals AUCs and means over so many forgotten records are stated.

    Intervals of few records are wider than a tenth, those of many wider than a hundredth.
    """
    return 1 if records < FEW else 2


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


def mean_interval(values: Array, level: float = 0.95) -> Estimate:
    """The mean of shares in 0 to 1, in percent, with Student's interval, cut off at 0 and 100.

    >>> import numpy as np
    >>> [round(value, 1) for value in mean_interval(np.array([0.5, 0.7, 0.9]))]
    [70.0, 20.3, 100.0]
    """
    mean, count = float(values.mean()), len(values)
    if count < 2:
        return Estimate(100 * mean, 0.0, 100.0)
    reach = float(stdtrit(count - 1, 0.5 + level / 2)) * float(values.std(ddof=1)) / count**0.5
    return Estimate(100 * mean, 100 * max(mean - reach, 0.0), 100 * min(mean + reach, 1.0))


def accuracy_interval(predictions: Predictions, level: float = 0.95) -> Estimate:
    """Accuracy in percent with its interval, over examples; of texts, the share of right tokens."""
    if predictions.of_texts:
        return mean_interval(predictions.right.numpy(), level)
    hits = int((predictions.classes == predictions.labels).sum())
    return wilson_interval(hits, len(predictions.labels), level)
