"""Attack features against their formulas, written out."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from expunge.evaluation import FEATURES, Predictions, Views, member_shares, score
from expunge.evaluation.attacks._features import RELEASED, loss
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


def test_released_features_exchange_the_logarithms_and_read_probabilities() -> None:
    part = predictions(40, 0)
    expected = []
    for row, y in zip(part.logits.tolist(), part.labels.tolist(), strict=True):
        p = literal("probabilities", row, y)
        others = [p[i] for i in range(len(p)) if i != y]
        expected.append([-(1 - p[y]) * math.log(1 - p[y]) - sum(v * math.log(v) for v in others)])
    found = RELEASED["modified-entropy"](part)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert np.abs(found - FEATURES["modified-entropy"](part)).max() > 0.1
    np.testing.assert_array_equal(RELEASED["logits"](part), FEATURES["probabilities"](part))


def test_attacks_take_the_released_features_if_asked_to() -> None:
    views = Views(forget=predictions(60, 1), test=predictions(80, 2), retain=predictions(80, 3))
    ours, released = (member_shares(views, released=chosen) for chosen in (False, True))
    same = {name for name in ours if ours[name] == released[name]}
    assert {"correctness", "confidence", "entropy"} <= same < set(ours)
    assert score(views, attacks="released").mia_logits == released["logits"]


def test_loss_is_the_cross_entropy() -> None:
    part = predictions(20, 1)
    expected = torch.nn.functional.cross_entropy(part.logits, part.labels, reduction="none")
    np.testing.assert_allclose(loss(part), expected.numpy(), rtol=1e-5)


@pytest.mark.parametrize("name", list(FEATURES))
@pytest.mark.parametrize("label", [0, 1])
def test_extreme_logits_stay_finite(name: str, label: int) -> None:
    part = Predictions(torch.tensor([[2000.0, -2000.0, 0.0]]), torch.tensor([label]))
    assert np.isfinite(FEATURES[name](part)).all()
