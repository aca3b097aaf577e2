"""A little world: four easy classes of 6 x 6 images, and a net that knows them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from expunge.data import Examples, ImageSet
from expunge.request._job import Job, make_job
from expunge.request.loading._load import ModelAndData, model_and_data_of

CLASSES = ("ant", "bee", "cat", "dog")


def images(count: int, seed: int, channels: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """uint8 [N, C, 6, 6] and labels: every class is bright in its own corner."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 4
    x = rng.integers(0, 120, (count, channels, 6, 6))
    for index, label in enumerate(labels):
        top, left = divmod(int(label), 2)
        x[index, :, 3 * top : 3 * top + 3, 3 * left : 3 * left + 3] += 130
    return x.astype(np.uint8), labels.astype(np.int64)


def floats(count: int, seed: int, names: bool = False) -> Examples:
    """The same as fractions."""
    x, y = images(count, seed)
    given = [f"{seed}/{index}.png" for index in range(count)] if names else None
    return Examples(torch.from_numpy(x).float() / 255, torch.from_numpy(y), CLASSES, given)


def bytes_of(count: int, seed: int, names: bool = False) -> ImageSet:
    """The same as bytes."""
    x, y = images(count, seed)
    given = [f"{seed}/{index}.png" for index in range(count)] if names else None
    return ImageSet(torch.from_numpy(x), torch.from_numpy(y), CLASSES, given)


class Net(nn.Module):
    """Takes floats in [0, 1] only."""

    def __init__(self, classes: int = 4) -> None:
        super().__init__()
        self.first = nn.Linear(36, 12)
        self.last = nn.Linear(12, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.relu(self.first(x.flatten(1) - 0.4)))


class Viewing(nn.Module):
    """Counts on the plain memory layout, as many do."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)
        self.head = nn.Linear(64, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.conv(x).view(len(x), -1))


def fitted(data: Examples, model: nn.Module | None = None, steps: int = 60) -> nn.Module:
    """A net trained on ``data`` for a moment."""
    torch.manual_seed(0)
    net = Net() if model is None else model
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(steps):
        optimizer.zero_grad()
        F.cross_entropy(net(data.inputs), data.labels).backward()
        optimizer.step()
    return net.eval()


def job_of(folder: Path, **values: Any) -> Job:
    """A job with the least that is needed."""
    return make_job(**({"weights": folder / "w.pt", "out": folder / "out"} | values))


def loaded_world(folder: Path, *, names: bool = False, **values: Any) -> ModelAndData:
    """The model and data of the little world."""
    train, val, test = floats(240, 1, names), floats(60, 2, names), floats(80, 3, names)
    return model_and_data_of(fitted(train), (train, val, test), job_of(folder, **values))
