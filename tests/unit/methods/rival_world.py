"""A small world for the methods of other publications: batches, and a problem on them."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge import Batch, Problem
from expunge.engine import RunSplits
from tests.tiny import TinyConv, images

FORGET, RETAIN = images(6, seed=1), images(15, seed=2)


def batches() -> tuple[Batch, Batch]:
    """All of forget and of retain, as a batch each."""
    return Batch(*FORGET.tensors, "forget"), Batch(*RETAIN.tensors, "retain")


def pairs() -> Iterator[tuple[Batch, Batch]]:
    """Two batches of either set."""
    for k in (0, 1):
        (x, y), (u, v) = FORGET.tensors, RETAIN.tensors
        yield Batch(x[k::2], y[k::2], "forget"), Batch(u[k::2], v[k::2], "retain")


def problem(model: nn.Module | None = None, *, noised: bool = True) -> Problem:
    """On a model that has left its initial weights, unless ``noised`` is False."""
    made = Problem(
        (model or TinyConv()).eval(),
        pairs=pairs,
        splits=RunSplits(FORGET, RETAIN),
        needs_saliency=True,
    )
    _ = made.initial
    if noised:
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for p in made.parameters:
                p.add_(0.3 * torch.randn(p.shape, generator=generator))
    return made


def squared_gradient(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """Of the mean loss on a batch, by name."""
    model.zero_grad()
    F.cross_entropy(model(batch.inputs), batch.targets).backward()
    return {name: p.grad.square() for name, p in model.named_parameters()}


def literal_divergence(first: Tensor, second: Tensor) -> float:
    """The mean over rows of KL(softmax(first) ‖ softmax(second)), with 0 log 0 = 0."""
    total = 0.0
    rows = zip(first.double().softmax(1), second.double().softmax(1), strict=True)
    for p, q in rows:
        terms = zip(p.tolist(), q.tolist(), strict=True)
        total += sum(
            a * (torch.tensor(a).log() - torch.tensor(b).log()).item() for a, b in terms if a
        )
    return total / len(first)
