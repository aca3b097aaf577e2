"""Unlearnings small enough to compare, run by one process or by two."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

import expunge
from tests import tiny
from tests.tiny import CLASSES, TinyConv, images, points, without_seconds
from tests.unit.methods.token_worlds import Bigram, texts

FORGET, RETAIN, UNSEEN = 21, 40, 30
"""With batches of 8: forget in 8, 8 and 5 examples, so that the last one is uneven."""


class Plain(nn.Module):
    """Two layers without BatchNorm."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(3)
            self.first = nn.Linear(4, 6)
            self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.first(x)))


WORLDS: dict[str, tuple[Any, Any]] = {
    "plain": (points, Plain),
    "batchnorm": (images, TinyConv),
    "tokens": (texts, Bigram),
}


def unlearn(kind: str, group: Any, **options: Any) -> expunge.Result:
    """Three steps on a model ``plain``, with ``batchnorm`` or of ``tokens``; the last is uneven."""
    make, model = WORLDS[kind]
    chosen: dict[str, Any] = {
        "forget": make(FORGET, seed=1),
        "retain": make(RETAIN, seed=2),
        "unseen": make(UNSEEN, seed=3),
        "method": "random-label",
        "addon": "focus",
        "epochs": 1,
        "batch_size": 8,
        "lr": 1e-2,
        # Adam divides by √v: where a gradient is 0 up to rounding, rounding decides its step.
        "optimizer": torch.optim.SGD,
        "aggregate": expunge.WeightedSum(0.5, 0.5),
        "progress": False,
        "group": group,
    }
    return tiny.unlearn(model(), **chosen | options)


def outcome(kind: str, group: Any, options: dict[str, Any]) -> dict[str, Any]:
    """Weights and history of a run, as plain values that can be sent."""
    result = unlearn(kind, group, **options)
    return {
        "model": {name: tensor.numpy() for name, tensor in result.model.state_dict().items()},
        "classes": sorted({type(m).__name__ for m in result.model.modules()}),
        "history": result.history.as_dict(),
        "text": without_seconds(result.history),
    }
