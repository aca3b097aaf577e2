"""Predictions whose truth is known, because it was planted."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from expunge.evaluation import Predictions, Views


def predictions(count: int, seed: int, *, margin: float = 1.0, classes: int = 5) -> Predictions:
    """Heavy-tailed logits that lean to the label by ``margin``."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, classes, count)
    logits = random.standard_t(4, (count, classes))
    logits[np.arange(count), labels] += margin
    return Predictions(torch.tensor(logits, dtype=torch.float32), torch.tensor(labels))


def world(
    *,
    forget: float,
    retain: float = 1.0,
    unseen: float = 1.0,
    size: int = 1000,
    seed: int = 0,
    val: bool = True,
) -> Views:
    """Splits whose margins are given: equal margins are exchangeable, large ones memorised."""
    return Views(
        forget=predictions(size // 2, 4 * seed, margin=forget),
        retain=predictions(2 * size, 4 * seed + 1, margin=retain),
        test=predictions(size, 4 * seed + 2, margin=unseen),
        val=predictions(size, 4 * seed + 3, margin=unseen) if val else None,
    )


def reference(views: Views, seed: int = 99) -> Views:
    """A model that saw none of it, on the same examples."""
    random = np.random.default_rng(seed)
    parts = {}
    for name, part in views.items():
        logits = random.standard_t(4, part.logits.shape)
        logits[np.arange(len(logits)), part.labels.numpy()] += 1.0
        parts[name] = Predictions(torch.tensor(logits, dtype=torch.float32), part.labels)
    return Views(**parts)


def permuted(part: Predictions, seed: int) -> Predictions:
    return part.take(np.random.default_rng(seed).permutation(len(part.labels)))


class Passing(nn.Module):
    """Its inputs are its logits; counts its passes."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return x * self.factor


def as_dataset(part: Predictions) -> TensorDataset:
    """A dataset whose inputs are the logits: for :class:`Passing`."""
    return TensorDataset(part.logits, part.labels)
