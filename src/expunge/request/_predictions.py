"""What a model says of the records of a split: of classes or of texts, asked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from expunge.data import Examples
from expunge.data._batches import Data
from expunge.data.text._text_examples import TextExamples
from expunge.engine._prediction_memory import ask_once, keep_answer
from expunge.evaluation import Predictions, predict
from expunge.evaluation._benign_steps import after_benign_steps, benign_rate
from expunge.evaluation.text._text_predictions import predict_texts
from expunge.request.evidence._measurements import SplitPredictions
from expunge.request.subject._load import Subject


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


def predict_splits(
    model: nn.Module, subject: Subject, forget: Examples, retain: Examples
) -> SplitPredictions:
    """Predictions of every split."""
    splits = {"forget": forget, "retain": retain, "val": subject.val, "test": subject.test}
    return SplitPredictions(**{name: predict_once(model, data) for name, data in splits.items()})


def predict_relearned(
    model: nn.Module, subject: Subject, forget: Examples, retain: Examples, seed: int
) -> SplitPredictions | None:
    """The same after benign steps; they are not taken for texts."""
    if isinstance(retain, TextExamples):
        return None
    again = after_benign_steps(model, retain, lr=benign_rate(model), seed=seed)
    return predict_splits(again, subject, forget, retain)


def _question(data: Data) -> Callable[[nn.Module, Any], Predictions]:
    """What the memory of predictions knows the pass by: that of classes is shared with methods."""
    return predict_texts if isinstance(data, TextExamples) else predict
