"""A deletion request from Python, with your own network and data.

Run:  python examples/forget_own_model.py
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import expunge


class OwnCNN(nn.Module):
    """Whatever you trained: it only has to map a batch of inputs to logits."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 16, 3, padding=1)
        self.first = nn.Linear(16 * 4 * 4, 64)
        self.last = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(F.relu(self.conv(x)), 2)
        logits: Tensor = self.last(F.relu(self.first(x.view(len(x), -1))))
        return logits


def own_data(path: Path) -> tuple[TensorDataset, TensorDataset, TensorDataset]:
    """Train, validation and test data from an .npz file."""
    if not path.exists():
        digits = load_digits()
        order = np.random.default_rng(0).permutation(len(digits.target))
        images = (digits.images[order] / 16.0).astype(np.float32)
        np.savez(path, x=images, y=digits.target[order])
    with np.load(path) as arrays:
        x, y = torch.from_numpy(arrays["x"])[:, None], torch.from_numpy(arrays["y"]).long()
    cuts = (slice(0, 300), slice(300, 800), slice(800, None))
    train, val, test = (TensorDataset(x[cut], y[cut]) for cut in cuts)
    return train, val, test


def trained(data: TensorDataset) -> OwnCNN:
    """A network trained until it knows its data by heart."""
    torch.manual_seed(0)
    model = OwnCNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    x, y = data.tensors
    for _ in range(120):
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval()


def main(folder: Path) -> None:
    train, val, test = own_data(folder / "own.npz")
    outcome = expunge.forget(
        model=trained(train),
        data=(train, val, test),
        ids=range(0, 240, 2),  # 120 records that have to go
        out=folder / "requests",
        recipe={"epochs": 60, "batch_size": 32, "lr": 3e-3, "algorithm": "adamw"},
    )
    assert outcome.evidence is not None
    print(outcome.evidence.verdict.status)
    print(outcome.evidence.verdict.headline)
    for metric in outcome.evidence.metrics:
        before, after = metric.before.value, metric.after.value
        print(f"  {metric.label:32} {before:6.1f} -> {after:6.1f} %")
    print(f"The page: {outcome.folder}/report.html")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(scratch))
