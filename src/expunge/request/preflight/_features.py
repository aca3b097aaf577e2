"""What a model makes of its inputs just before it decides: the input of its last Linear layer."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from expunge.evaluation._predict import Predictions, predict
from expunge.request.subject._examples import InMemory

WIDEST = 1024
"""Wider features are projected to so many dimensions, to bound the memory they take."""


def features(model: nn.Module, data: InMemory) -> Tensor:
    """Features of every example, float32 [N, D]: input of the last Linear layer, or the logits."""
    return predict_with_features(model, data)[1]


def predict_with_features(model: nn.Module, data: InMemory) -> tuple[Predictions, Tensor]:
    """Predictions and features in one pass.

    The last Linear layer is the one that is called last. Where there is none that takes a vector
    an example, the logits stand in. Features wider than :data:`WIDEST` are projected at random
    (seeded), which keeps large cosines: their error falls with 1 - cos².
    """
    watch = _Watch()
    layers = [module for module in model.modules() if isinstance(module, nn.Linear)]
    hooks: list[Any] = [layer.register_forward_pre_hook(watch.on_layer) for layer in layers]
    hooks.append(model.register_forward_hook(watch.on_model))
    try:
        predictions = predict(model, data)
    finally:
        for hook in hooks:
            hook.remove()
    return predictions, torch.cat(watch.found)


class _Watch:
    """Keeps the latest input of a Linear layer, and takes it over when the model is done."""

    def __init__(self) -> None:
        self.found: list[Tensor] = []
        self._latest: Tensor | None = None
        self._projection: Tensor | None = None

    def on_layer(self, _: nn.Module, inputs: tuple[Any, ...]) -> None:
        self._latest = inputs[0]

    def on_model(self, _: nn.Module, __: tuple[Any, ...], logits: Tensor) -> None:
        seen, self._latest = self._latest, None
        fits = seen is not None and seen.ndim == 2 and len(seen) == len(logits)
        chosen = seen if fits and seen is not None else logits
        self.found.append(self._narrowed(chosen.detach().float().cpu()).clone())

    def _narrowed(self, values: Tensor) -> Tensor:
        width = values.shape[1]
        if width <= WIDEST:
            return values
        if self._projection is None:
            generator = torch.Generator().manual_seed(0)
            self._projection = torch.randn(width, WIDEST, generator=generator) / math.sqrt(WIDEST)
        return values @ self._projection
