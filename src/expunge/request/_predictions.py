"""What a model says of the records of a split: of classes or of texts, asked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from expunge.data import Data
from expunge.data.text import TextExamples
from expunge.engine import ask_once, keep_answer
from expunge.evaluation import Predictions, predict, predict_texts


def predict_records(model: nn.Module, data: Data) -> Predictions:
    """Predictions of the records, in their order."""
    return predict_texts(model, data) if isinstance(data, TextExamples) else predict(model, data)


def predict_once(model: nn.Module, data: Data) -> Predictions:
    """:func:`predict_records`, or what it returned for the same model, weights and data."""
    predictions: Predictions = ask_once(model, data, _question(data))
    return predictions


def keep_predictions(model: nn.Module, data: Data, predictions: Predictions) -> None:
    """Let :func:`predict_once` return these ``predictions``."""
    keep_answer(model, data, _question(data), predictions)


def _question(data: Data) -> Callable[[nn.Module, Any], Predictions]:
    """What the memory of predictions knows the pass by: that of classes is shared with methods."""
    return predict_texts if isinstance(data, TextExamples) else predict
