"""What a model says of data, kept until it changes, for those who look at the same data."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from expunge.engine._predict import predict


@dataclass(eq=False)
class _Kept:
    """What a model with weights of this ``fingerprint`` said, by question and identity of data."""

    fingerprint: tuple[float, ...]
    answers: dict[tuple[str, int], tuple[weakref.ref[Any], Any]] = field(default_factory=dict)


_MEMORY: weakref.WeakKeyDictionary[nn.Module, _Kept] = weakref.WeakKeyDictionary()


def cached_predict(
    model: nn.Module, data: Any, ask: Callable[[nn.Module, Any], Any] | None = None
) -> Any:
    """``ask(model, data)``, or what it returned for the same model, weights and data.

    The default is :func:`predict`.

    After an epoch, the check of a request and the method's own look at unseen data need the same
    pass. Weights are the same if torch counted no change in place and, since fused optimizers are
    not counted, their sums are the same. Do not write to what is returned.
    """
    ask = ask or predict
    reference, answer = _kept(model).answers.get((ask.__name__, id(data)), (None, None))
    # The identity of data that are gone may belong to others by now.
    if reference is None or reference() is not data:
        answer = ask(model, data)
        keep_prediction(model, data, answer, ask)
    return answer


def keep_prediction(
    model: nn.Module, data: Any, answer: Any, ask: Callable[[nn.Module, Any], Any] | None = None
) -> None:
    """Let :func:`cached_predict` return this ``answer``, which was found in another way."""
    question = (ask or predict).__name__
    with suppress(TypeError):  # a list of examples cannot be referred to weakly
        _kept(model).answers[question, id(data)] = weakref.ref(data), answer


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
