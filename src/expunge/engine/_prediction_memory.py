"""Predictions that are kept until the model changes, for those who look at the same data."""

from __future__ import annotations

import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from expunge.data._batches import Data
from expunge.engine._predict import Predictions, predict


@dataclass(eq=False)
class _Kept:
    """Predictions of a model with weights of this ``fingerprint``, by the identity of the data."""

    fingerprint: tuple[float, ...]
    by_data: dict[int, tuple[weakref.ref[Any], Predictions]] = field(default_factory=dict)


_MEMORY: weakref.WeakKeyDictionary[nn.Module, _Kept] = weakref.WeakKeyDictionary()


def predict_once(model: nn.Module, data: Data) -> Predictions:
    """:func:`predict`, or what it returned for the same model, weights and data.

    After an epoch, the check of a request and the method's own look at unseen data need the same
    pass. Weights are the same if torch counted no change in place and, since fused optimizers are
    not counted, their sums are the same. Do not write to the tensors that are returned.
    """
    kept = _kept(model)
    reference, predictions = kept.by_data.get(id(data), (None, None))
    # The identity of data that are gone may belong to others by now.
    if predictions is None or reference is None or reference() is not data:
        predictions = predict(model, data)
        keep_predictions(model, data, predictions)
    return predictions


def keep_predictions(model: nn.Module, data: Data, predictions: Predictions) -> None:
    """Let :func:`predict_once` return these ``predictions``, which were made otherwise."""
    with suppress(TypeError):  # a list of examples cannot be referred to weakly
        _kept(model).by_data[id(data)] = weakref.ref(data), predictions


def drop_predictions(model: nn.Module) -> None:
    """Forget what ``model`` predicted: its weights have changed."""
    _MEMORY.pop(model, None)


def _kept(model: nn.Module) -> _Kept:
    """What is kept of the model with its present weights; nothing if changes are not counted."""
    tensors = [*model.parameters(), *model.buffers()]
    if not tensors or any(t.is_inference() for t in tensors):
        return _Kept(())
    sums = torch.stack([t.detach().sum(dtype=torch.float64).cpu() for t in tensors]).tolist()
    fingerprint = (*map(id, tensors), *(t._version for t in tensors), *sums)
    kept = _MEMORY.get(model)
    if kept is None or kept.fingerprint != fingerprint:
        kept = _MEMORY[model] = _Kept(fingerprint)
    return kept
