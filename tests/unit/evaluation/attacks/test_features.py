"""Attack features against their formulas, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from expunge.evaluation import FEATURES, Predictions
from expunge.evaluation.attacks._features import loss
from tests.unit.evaluation.worlds import predictions


def literal(name: str, logits: list[float], y: int) -> list[float]:
    e = [math.exp(v) for v in logits]
    p = [v / sum(e) for v in e]
    others = [i for i in range(len(p)) if i != y]
    return {
        "correctness": [float(p.index(max(p)) == y)],
        "confidence": [p[y]],
        "logits": logits,
        "probabilities": p,
        "entropy": [-sum(v * math.log(v) for v in p)],
        "modified-entropy": [
            -(1 - p[y]) * math.log(p[y]) - sum(p[i] * math.log(1 - p[i]) for i in others)
        ],
    }[name]


@pytest.mark.parametrize("name", list(FEATURES))
def test_features_are_their_formulas(name: str) -> None:
    part = predictions(40, 0)
    expected = [
        literal(name, row, y)
        for row, y in zip(part.logits.tolist(), part.labels.tolist(), strict=True)
    ]
    np.testing.assert_allclose(FEATURES[name](part), expected, rtol=1e-6, atol=1e-9)


def test_loss_is_the_cross_entropy() -> None:
    part = predictions(20, 1)
    expected = torch.nn.functional.cross_entropy(part.logits, part.labels, reduction="none")
    np.testing.assert_allclose(loss(part), expected.numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", list(FEATURES))
@pytest.mark.parametrize("label", [0, 1])
def test_extreme_logits_stay_finite(name: str, label: int) -> None:
    part = Predictions(torch.tensor([[2000.0, -2000.0, 0.0]]), torch.tensor([label]))
    assert np.isfinite(FEATURES[name](part)).all()
