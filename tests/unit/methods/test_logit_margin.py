"""The forget loss of PDU."""

from __future__ import annotations

import pytest
import torch

from expunge import Batch, Problem
from expunge.methods import LogitMargin


def test_the_loss_is_the_squared_margin_token_by_token() -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5)).double()
    tokens = torch.tensor([[1, 2, 3, 0], [4, 0, 2, 0]])
    labels = torch.tensor([[-100, 2, 3, -100], [-100, -100, 2, -100]])
    batch = Batch(tokens, labels, "forget")
    found = LogitMargin().objective(Problem(model), batch, batch).loss.detach()
    margins = []
    for row, wanted in zip(tokens.tolist(), labels.tolist(), strict=True):
        for token, label in zip(row, wanted[1:], strict=False):
            if label != -100:
                z = model(torch.tensor([token]))[0].tolist()
                margins.append(max(z) - sum(z) / len(z))
    assert len(margins) == 3
    assert float(found) == pytest.approx(sum(m * m for m in margins) / 3)


def test_a_uniform_model_has_nothing_left_to_forget() -> None:
    model = torch.nn.Sequential(torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5))
    torch.nn.init.zeros_(model[1].weight)
    torch.nn.init.constant_(model[1].bias, 2.0)
    batch = Batch(torch.tensor([[1, 2]]), torch.tensor([[-100, 2]]), "forget")
    assert float(LogitMargin().objective(Problem(model), batch, batch).loss.detach()) == 0.0
