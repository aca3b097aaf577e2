"""Balance classes: offsets of the logits by which no class has lost more accuracy than others."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

PER_CLASS = 20
"""Offsets are fitted: where there are not many examples per class, they are shrunk."""
ROUNDS = 100
"""Of the loop that fits the offsets."""


def balancing_offsets(
    logits: Tensor, labels: Tensor, goal: Tensor, lost: Sequence[int] = ()
) -> Tensor:
    """Offsets b [K] of ``logits`` [N, K], by which each class misses its goal by the same amount.

    ``goal`` [K] is an accuracy per class, in 0 to 1. At the rates that forgetting takes, a model
    comes to prefer some classes to their neighbours, which lose accuracy, and others in the next
    epoch. K numbers put that right, and leave the rest of the model as it is. A loop raises the
    offset of a class in proportion to the accuracy that it has lost more than the mean class, in
    units of the distance between the two largest logits; the best round is returned. Offsets are
    shrunk by N/(N + 20 K). Classes in ``lost``, of which nothing is retained, and their examples
    take no part.

    >>> labels = torch.tensor([0, 1]).repeat(500)
    >>> logits = 2.0 * torch.eye(2)[labels] + torch.randn(1000, 2).cumsum(0) / 100.0
    >>> biased = logits + torch.tensor([3.0, 0.0])
    >>> offsets = balancing_offsets(biased, labels, accuracy_per_class(logits, labels))
    >>> bool(offsets[0] < -0.5), bool(offsets[1] > 0.5)
    (True, True)
    """
    offsets = torch.zeros(logits.shape[1], dtype=torch.float64)
    kept = torch.tensor([label for label in sorted(set(labels.tolist())) if label not in lost])
    if len(kept) < 2:
        return offsets
    chosen = torch.isin(labels, kept)
    logits, labels = logits[chosen].double(), labels[chosen]
    largest = logits.topk(2, dim=1).values
    unit = float((largest[:, 0] - largest[:, 1]).mean())
    best, smallest = offsets, float("inf")
    for done in range(ROUNDS):
        missed = (goal - accuracy_per_class(logits + offsets, labels))[kept]
        beyond = missed - missed.mean()
        if float(beyond.abs().max()) < smallest:
            best, smallest = offsets, float(beyond.abs().max())
        offsets = offsets.index_add(0, kept, unit / (1.0 + done / 25) * beyond)
    return best * len(labels) / (len(labels) + PER_CLASS * len(kept))


def accuracy_per_class(probabilities: Tensor, labels: Tensor) -> Tensor:
    """The share of each class that is predicted correctly [K]; 0 for a class without examples."""
    right = (probabilities.argmax(dim=1) == labels).double()
    classes = probabilities.shape[1]
    count = torch.bincount(labels, minlength=classes).clamp(min=1)
    return torch.zeros(classes, dtype=torch.float64).index_add_(0, labels, right) / count
