"""Worlds small enough to unlearn in milliseconds."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import expunge

CLASSES = 3


class TinyConv(nn.Module):
    """Two convolutions with BatchNorm, dropout if asked, on images of 1 x 5 x 5."""

    def __init__(self, dropout: float = 0.0, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.conv1 = nn.Conv2d(1, 4, 3, padding=1)
            self.bn1 = nn.BatchNorm2d(4)
            self.conv2 = nn.Conv2d(4, 4, 3, padding=1, bias=False)
            self.bn2 = nn.BatchNorm2d(4)
            self.dropout = nn.Dropout(dropout)
            self.head = nn.Linear(4, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.bn2(self.conv2(x)))
        return self.head(self.dropout(x.mean(dim=(2, 3))))


class Counting(nn.Module):
    """A linear model that counts its forward passes."""

    def __init__(self, features: int = 4, classes: int = CLASSES) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.head = nn.Linear(features, classes)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.head(x)


def images(count: int, seed: int = 0) -> TensorDataset:
    """Random images whose label shows in their mean."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % CLASSES
    x = torch.randn(count, 1, 5, 5, generator=generator) + labels.view(-1, 1, 1, 1)
    return TensorDataset(x, labels)


def points(count: int, seed: int = 0, features: int = 4) -> TensorDataset:
    """Random vectors with labels."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, features, generator=generator)
    return TensorDataset(x, torch.arange(count) % CLASSES)


def bits(model: nn.Module) -> dict[str, Tensor]:
    """All weights and buffers, copied."""
    return copy.deepcopy(model.state_dict())


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Whether two states are equal to the last bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def without_seconds(history: expunge.History) -> dict[str, Any]:
    """A history as text that can be compared, nan included, without its times."""
    return {
        kind: [
            {name: repr(value) for name, value in row.items() if "seconds" not in name}
            for row in rows
        ]
        for kind, rows in history.as_dict().items()
    }


def unlearn(model: nn.Module, **options: Any) -> expunge.Result:
    """:func:`expunge.unlearn` with the options of procedure and execution side by side."""
    given, execution = _executed(options)
    recipe = given.get("optimizer")
    rare = {"batchnorm", "schedule", "augment_splits", "retain_order", "strict"} & set(given)
    if rare:
        names = set(expunge.Procedure.__dataclass_fields__) & set(given)
        chosen = {name: given.pop(name) for name in names if given[name] is not None}
        known = recipe if isinstance(recipe, expunge.Recipe) else None
        given["method"] = expunge.Procedure.preferred(known, **chosen)
    return expunge.unlearn(model, execution=execution, **given)


def train(model: nn.Module, data: Any, **options: Any) -> expunge.Result:
    """:func:`expunge.train` with the options of its execution beside the others."""
    given, execution = _executed(options)
    return expunge.train(model, data, execution=execution, **given)


def _executed(options: dict[str, Any]) -> tuple[dict[str, Any], expunge.Execution]:
    names = set(expunge.Execution.__dataclass_fields__) & set(options)
    given = {name: value for name, value in options.items() if name not in names}
    return given, expunge.Execution(**{name: options[name] for name in names})
