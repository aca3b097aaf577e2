"""The device that a run takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import expunge
from expunge import InvalidInput
from expunge.engine._device import pick_device
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
