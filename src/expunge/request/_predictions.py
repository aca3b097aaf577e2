"""What a model says of the records of a split: of classes or of texts, asked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from expunge.data import Data
from expunge.data.text import TextExamples
from expunge.engine import cached_predict, keep_prediction
from expunge.evaluation import Predictions, predict, predict_texts


def predict_records(model: nn.Module, data: Data) -> Predictions:
    """Predictions of the records, in their order; made once for a model, its weights and data."""
    predictions: Predictions = cached_predict(model, data, _question(data))
    return predictions


def keep_predictions(model: nn.Module, data: Data, predictions: Predictions) -> None:
    """Let :func:`predict_records` return these ``predictions``."""
    keep_prediction(model, data, predictions, _question(data))


def _question(data: Data) -> Callable[[nn.Module, Any], Predictions]:
    """What the memory of predictions knows the pass by: that of classes is shared with methods."""
    return predict_texts if isinstance(data, TextExamples) else predict
