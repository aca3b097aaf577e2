"""Measure two models, before and after: metrics, attacks, scores, classes and single records."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from expunge.evaluation import (
    Predictions,
    exposure_of,
    match_class_mix,
    scaled_confidence,
)
from expunge.evidence import ClassRow, ExposureCounts, MetricRow
from expunge.request._predictions import FEW, accuracy_interval

ATTACK_LABELS = {
    "correctness": "guesses from whether the prediction is right",
    "confidence": "guesses from the probability of the label",
    "logits": "guesses from all outputs of the model",
    "entropy": "guesses from how sure the model is",
    "modified-entropy": "guesses from how sure the model is of the label",
    "loss": "guesses from the loss",
}
TEXT_ATTACK_LABELS = {
    "loss": "guesses from the probability of the answer",
    "zlib": "guesses from that, by how well the answer can be compressed",
    "min_k": "guesses from the least probable tokens of the answer",
    "min_k_plus_plus": "guesses from those, standardised over the vocabulary",
}
FACTS_LABEL = "guesses from the probability of the tokens that carry the fact"
EXPOSED, AVOIDED = 0.99, 0.01
"""A record stands out if more than this fraction of unseen data scores lower, or less."""
EXPOSURE_EDGES = (0.0, AVOIDED, 0.1, 0.5, 0.9, EXPOSED, 1.0)


@dataclass(frozen=True)
class SplitPredictions:
    """One model's predictions on every split; of retained data, on a sample."""

    forget: Predictions
    val: Predictions
    retain: Predictions
    test: Predictions

    def matched(self, seed: int) -> tuple[Predictions, Predictions]:
        """Forgotten and test data of the same class mix, as far as there are enough."""
        forget, test = self.forget, self.test
        if self.has_test_of_classes:
            forget = forget.take(torch.isin(forget.labels, test.labels).nonzero()[:, 0])
            test = test.take(match_class_mix(test.labels, forget.labels, seed, most=math.inf))
        return forget, test

    @property
    def has_test_of_classes(self) -> bool:
        """Whether test has any example of the forgotten classes."""
        return bool(torch.isin(self.test.labels, self.forget.labels).any())


def measure_metrics(
    before: SplitPredictions,
    after: SplitPredictions,
    later: SplitPredictions | None,
    seed: int,
) -> list[MetricRow]:
    """The headline accuracies before and after; of the records also later and of unseen data."""
    texts = before.forget.of_texts
    what = "Answer tokens predicted: " if texts else "Accuracy on "
    of_all = "" if texts else "the "
    size = f"{len(before.retain.labels):,}"
    rows = (
        (
            "ua",
            f"{of_all}forgotten data",
            "forget",
            "If the model is right more often than on unseen data alike, it still remembers the "
            "records; if it is right less often, it avoids them.",
        ),
        ("ta", "test data", "test", "What the model is worth on data that decided nothing."),
        ("va", "validation data", "val", "More data that the model never saw."),
        (
            "ra",
            f"{of_all}retained data",
            "retain",
            f"What the model still knows of the records it may keep, by {size} of them.",
        ),
    )
    ua_later = None if later is None else accuracy_interval(later.forget)
    target = None
    if after.has_test_of_classes:
        target = accuracy_interval(after.matched(seed)[1])
    return [
        MetricRow(
            name=name,
            label=f"{what}{label}",
            unit="%",
            direction="target" if name == "ua" else "higher",
            before=accuracy_interval(getattr(before, split)),
            after=accuracy_interval(getattr(after, split)),
            after_benign_steps=ua_later if name == "ua" else None,
            target=target if name == "ua" else None,
            explain=text,
        )
        for name, label, split, text in rows
    ]


def measure_classes(
    classes: Sequence[str], forgotten: Tensor, before: Predictions, after: Predictions
) -> list[ClassRow]:
    """Accuracy on test per class, before and after, and how many records of it were forgotten."""

    def accuracy(predictions: Predictions, members: Tensor) -> float | None:
        if not bool(members.any()):
            return None
        return 100.0 * float(predictions.right[members].mean())

    rows = []
    for label, name in enumerate(classes):
        members = before.labels == label
        rows.append(
            ClassRow(
                name=name,
                forgotten=int((forgotten == label).sum()),
                test=int(members.sum()),
                before=accuracy(before, members),
                after=accuracy(after, members),
            )
        )
    return rows


def count_exposure(before: SplitPredictions, after: SplitPredictions) -> ExposureCounts | None:
    """How many forgotten records stand where among test data; None if they are few."""
    if len(before.forget.labels) < FEW:  # a bin would describe a single one
        return None
    counts = []
    for each in (before, after):
        forget, test = (scaled_confidence(p.logits, p.labels) for p in (each.forget, each.test))
        counts.append(np.histogram(exposure_of(forget, test), EXPOSURE_EDGES)[0].tolist())
    return ExposureCounts(edges=list(EXPOSURE_EDGES), before=counts[0], after=counts[1])
