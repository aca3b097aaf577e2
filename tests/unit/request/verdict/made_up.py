"""Made-up predictions of a model with four classes, before and after a request."""

from __future__ import annotations

import torch
from torch import Tensor

from expunge.evaluation import Predictions
from expunge.request.verdict._measurements import RequestPredictions

CLASSES = 4


def predictions(labels: Tensor, right: Tensor, margin: float, seed: int) -> Predictions:
    """Right where ``right`` says so, by a margin of about ``margin``."""
    random = torch.Generator().manual_seed(seed)
    size = len(labels)
    logits = 0.3 * torch.randn(size, CLASSES, generator=random)
    margins = margin + 0.8 * torch.randn(size, generator=random).abs()
    answers = torch.where(right, labels, (labels + 1) % CLASSES)
    logits[torch.arange(size), answers] += margins
    return Predictions(logits, labels)


def even_labels(size: int) -> Tensor:
    return torch.arange(size) % CLASSES


def right_on(labels: Tensor, rates: dict[int, float], default: float) -> Tensor:
    """Which examples are right: the first part of each class, ``rates`` of it."""
    right = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique().tolist():
        members = (labels == label).nonzero()[:, 0]
        right[members[: round(rates.get(label, default) * len(members))]] = True
    return right


def splits(
    *,
    records: int,
    forget_accuracy: float,
    forget_margin: float,
    class_accuracy: float = 0.95,
    val: int = 80,
    test: int = 1000,
    seed: int = 0,
) -> RequestPredictions:
    """A model that is right on 95 % of unseen data; ``records`` of class 0 are to be forgotten.

    ``class_accuracy`` is that on unseen data of class 0. The records are among 1,000 of class 0.
    """

    def unseen(size: int, seed: int) -> Predictions:
        labels = even_labels(size)
        return predictions(labels, right_on(labels, {0: class_accuracy}, 0.95), 2.0, seed)

    forget = torch.zeros(records, dtype=torch.int64)
    retain = torch.cat([torch.zeros(1000 - records, dtype=torch.int64), even_labels(300)])
    return RequestPredictions(
        forget=predictions(forget, right_on(forget, {}, forget_accuracy), forget_margin, 40 + seed),
        val=unseen(val, 1),
        retain=predictions(retain, torch.ones(len(retain), dtype=torch.bool), 6.0, 3),
        test=unseen(test, 2),
    )
