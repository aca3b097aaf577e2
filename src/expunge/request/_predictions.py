"""What a model says of the records of a split, and how often it is right."""

from __future__ import annotations

import numpy as np
from torch import nn

from expunge._arrays import Array
from expunge.data import Data
from expunge.data.text import TextExamples
from expunge.engine import PredictionCache
from expunge.evaluation import Predictions, predict_texts, student_reach, wilson_interval
from expunge.evidence import Interval

FEW = 20
"""With fewer forgotten records, no histogram of them is written, and their AUCs and means have one
decimal: together with the data and the models, more would say which records they are."""


def predict_records(model: nn.Module, data: Data, cache: PredictionCache) -> Predictions:
    """Predictions of the records, in their order; ``cache`` has them if they were made before."""
    if isinstance(data, TextExamples):
        return predict_texts(model, data, cache)
    predictions: Predictions = cache(model, data)
    return predictions


def evenly_spaced(count: int, most: int) -> list[int]:
    """At most ``most`` of the indices below ``count``.

    >>> evenly_spaced(9, 3), evenly_spaced(2, 3)
    ([0, 4, 8], [0, 1])
    """
    chosen: list[int] = np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()
    return chosen


def decimals_of(records: int) -> int:
    """To how many decimals AUCs and means over this many forgotten records are stated.

    Intervals of few records are wider than a tenth, those of many wider than a hundredth.
    """
    return 1 if records < FEW else 2


def mean_interval(values: Array) -> Interval:
    """The mean of shares in 0 to 1, in percent, with Student's 95 % interval, cut off at 0 and 100.

    >>> print(mean_interval(np.array([0.5, 0.7, 0.9])))
    value=70.0 low=20.317246 high=100.0
    """
    mean = float(values.mean())
    reach = student_reach(values) if len(values) > 1 else 1.0
    return Interval.of(100 * mean, 100 * max(mean - reach, 0.0), 100 * min(mean + reach, 1.0))


def accuracy_interval(predictions: Predictions) -> Interval:
    """Accuracy in percent with its 95 % interval; of texts, the share of right tokens."""
    if predictions.of_texts:
        return mean_interval(predictions.right.numpy())
    return Interval.of(*wilson_interval(int(predictions.right.sum()), len(predictions.labels)))
