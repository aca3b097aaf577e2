"""Worlds where memory shows: clouds of points or digits, and nets that know them by heart."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import Subset, TensorDataset

CLASSES = 3


class World(NamedTuple):
    """An initial and an ideal model with their data."""

    initial: nn.Module
    ideal: nn.Module
    forget: Subset
    retain: Subset
    val: TensorDataset


def clouds(count: int, seed: int) -> TensorDataset:
    """Points around the centres of three classes."""
    random = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % CLASSES
    x = torch.randn(count, 10, generator=random)
    x[torch.arange(count), y] += 2.4
    return TensorDataset(x, y)


def learned(x: torch.Tensor, y: torch.Tensor, seed: int) -> nn.Module:
    """A net that knows (x, y) by heart."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, int(y.max()) + 1))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return net.eval()


@cache
def world(seed: int, size: int = 45, train: int = 180) -> World:
    """``size`` of ``train`` points are to be forgotten."""
    return divided(clouds(train, seed), clouds(300, seed + 1000), size, seed)


def divided(data: TensorDataset, val: TensorDataset, size: int, seed: int) -> World:
    """The first ``size`` of a shuffle are to be forgotten."""
    x, y = data.tensors
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed)).tolist()
    rest = order[size:]
    forget, retain = Subset(data, order[:size]), Subset(data, rest)
    return World(learned(x, y, seed), learned(x[rest], y[rest], seed + 100), forget, retain, val)


@cache
def digits(seed: int, size: int = 100, train: int = 200) -> World:
    """Handwritten digits: few to train on, 600 to validate on."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    order = torch.randperm(len(bunch.data), generator=torch.Generator().manual_seed(seed))
    x = torch.tensor(bunch.data, dtype=torch.float32)[order] / 16.0
    y = torch.tensor(bunch.target)[order]
    val = TensorDataset(x[train : train + 600], y[train : train + 600])
    return divided(TensorDataset(x[:train], y[:train]), val, size, seed)
