from __future__ import annotations

import numpy as np
import pytest
import torch

from expunge.evaluation.attacks._features import confidence, loss
from expunge.evaluation.text._text_predictions import TextPredictions

LOG_P = torch.tensor([-0.2, -1.5, -30.0, 0.0], dtype=torch.float64)
STRATA = torch.tensor([0, 1, 2, 3])


def predictions() -> TextPredictions:
    shares = torch.tensor([1.0, 0.5, 0.0, 1.0], dtype=torch.float64)
    return TextPredictions.of(LOG_P, STRATA, 4, shares, {"loss": LOG_P.numpy()})


def test_confidence_is_the_probability_of_the_answer_and_the_loss_its_logarithm() -> None:
    found = predictions()
    assert confidence(found)[:, 0] == pytest.approx(LOG_P.exp().numpy(), abs=1e-11)
    assert loss(found) == pytest.approx(-LOG_P.numpy(), abs=1e-11)
    assert torch.isfinite(found.logits).all(), "of an answer that is certain, too"


def test_a_part_of_an_answer_may_be_right() -> None:
    found = predictions()
    assert found.of_texts
    assert found.right.tolist() == [1.0, 0.5, 0.0, 1.0]


def test_what_is_taken_keeps_shares_and_scores() -> None:
    whole, order = predictions(), [2, 3, 0, 1]
    again = whole.take(np.array(order))
    assert torch.equal(again.logits, whole.logits[order])
    assert torch.equal(again.labels, STRATA[order])
    assert torch.equal(again.right, whole.right[order])
    assert again.scores["loss"].tolist() == LOG_P[order].tolist()
