"""What the model makes of each example (its features), and nearest neighbours among features."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge.data import Examples
from expunge.data.text import TextExamples
from expunge.engine import Predictions, predict
from expunge.methods import logits_of
from expunge.request._predictions import predict_records

MAX_WIDTH = 1024
"""Wider features are projected to this many dimensions, to bound the memory they take."""
BLOCK = 1 << 22
"""Similarities held at once: 16 MiB."""


def features(model: nn.Module, data: Examples) -> Tensor:
    """Features of every example, float32 [N, D]: input of the last Linear layer, or the logits."""
    return predict_with_features(model, data)[1]


def predict_with_features(model: nn.Module, data: Examples) -> tuple[Predictions, Tensor]:
    """Predictions and features in one pass.

    The last Linear layer is the one that is called last. If none takes one vector per example, the
    logits are used instead. Features wider than :data:`MAX_WIDTH` are projected at random (with a
    fixed seed), which preserves large cosines: their error falls with 1 - cos². Of texts they are
    the counts of their tokens, whatever the model.
    """
    if isinstance(data, TextExamples):
        return predict_records(model, data), token_features(data)
    recorder = _FeatureRecorder()
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks: list[Any] = [layer.register_forward_pre_hook(recorder.on_layer) for layer in layers]
    hooks.append(model.register_forward_hook(recorder.on_model))
    try:
        predictions = predict(model, data)
    finally:
        for hook in hooks:
            hook.remove()
    return predictions, torch.cat(recorder.batches)


def token_features(data: TextExamples) -> Tensor:
    """How often each text has each token, float32 [N, D]; padding is left out."""
    counts = torch.zeros(len(data), data.texts.tokenizer.size)
    counts.scatter_add_(1, data.inputs, torch.ones(data.inputs.shape))
    counts[:, data.texts.tokenizer.pad] = 0.0
    return _projected(counts)


def _projected(values: Tensor) -> Tensor:
    """At most :data:`MAX_WIDTH` columns, by a random projection with a fixed seed."""
    width = values.shape[1]
    if width <= MAX_WIDTH:
        return values
    return values @ _projection(width)


@functools.lru_cache(maxsize=1)
def _projection(width: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(width, MAX_WIDTH, generator=generator) / math.sqrt(MAX_WIDTH)


class _FeatureRecorder:
    """Remembers the latest input of a Linear layer, and keeps it when the model has finished."""

    def __init__(self) -> None:
        self.batches: list[Tensor] = []
        self._latest: Tensor | None = None

    def on_layer(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._latest = inputs[0]

    def on_model(self, _: nn.Module, __: tuple[Any, ...], output: Any) -> None:
        latest, self._latest, logits = self._latest, None, logits_of(output)
        if latest is None or latest.ndim != 2 or len(latest) != len(logits):
            latest = logits
        self.batches.append(_projected(latest.detach().float().cpu()).clone())


def nearest_neighbours(
    queries: Tensor, references: Tensor, block: int = BLOCK
) -> tuple[Tensor, Tensor]:
    """For each query [Q, D], the largest cosine with a reference [R, D], and its index: [Q], [Q].

    Computed a block of the [Q, R] table at a time. Of equal cosines the first counts; a vector of
    zeros is similar to nothing (cosine 0).

    >>> nearest_neighbours(torch.eye(2), torch.tensor([[0.0, 2.0], [1.0, 1.0]]))[1]
    tensor([1, 0])
    """
    rows = max(1, min(len(queries), 1024))
    columns = max(1, block // rows)
    best = torch.full((len(queries),), -torch.inf)
    best_index = torch.zeros(len(queries), dtype=torch.int64)
    for start in range(0, len(references), columns):
        others = F.normalize(references[start : start + columns], dim=1).T
        for at in range(0, len(queries), rows):
            part = slice(at, at + rows)
            # Normalised here: unit vectors of all queries would take as much memory as they do.
            value, index = (F.normalize(queries[part], dim=1) @ others).max(dim=1)
            better = value > best[part]
            best[part] = torch.where(better, value, best[part])
            best_index[part] = torch.where(better, index + start, best_index[part])
    return best.clamp(-1.0, 1.0), best_index
