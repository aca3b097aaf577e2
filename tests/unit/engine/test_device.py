"""The device that a run takes, and models that count on the plain memory layout."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

import expunge
from expunge import InvalidInput
from expunge.engine._device import pick_device
from expunge.evaluation import predict
from tests import tiny
from tests.tiny import Counting, points

FORGET, RETAIN = points(6), points(8, seed=1)


def unlearn(model: nn.Module | None = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 1, "batch_size": 2}
    return tiny.unlearn(model or Counting(), **chosen | options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="The device cuda cannot be used here"):
        unlearn(device="cuda")


def test_auto_stays_on_the_cpu_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert pick_device("auto", Counting()) == torch.device("cpu")
    assert pick_device("auto", nn.Flatten()) == torch.device("cpu")


def test_auto_takes_an_accelerator_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = torch.device("cuda", 1)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: found)
    assert pick_device("auto", Counting()) == found
    assert pick_device("cpu", Counting()) == torch.device("cpu")


class Viewing(nn.Module):
    """The usual first CNN: ``view`` after a convolution, which channels-last breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.head = nn.Linear(4 * 8 * 8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        logits: Tensor = self.head(x.view(len(x), -1))
        return logits


def test_a_model_that_views_after_a_convolution_can_be_evaluated() -> None:
    torch.manual_seed(0)
    model = Viewing()
    data = torch.utils.data.TensorDataset(torch.rand(7, 3, 8, 8), torch.arange(7) % 5)
    with torch.no_grad():
        expected = model(data.tensors[0])
    torch.testing.assert_close(predict(model, data, batch_size=3).logits, expected)
