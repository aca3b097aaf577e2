"""The progress bar: silent, shown, ended."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.utils.data import TensorDataset

import expunge
from expunge import Callback, InvalidInput
from expunge.engine import Run
from expunge.engine._progress import ProgressBar
from tests.tiny import Counting, bits, points, same

FORGET, RETAIN = points(6), points(8, seed=1)


def unlearn(model: nn.Module | None = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 1, "batch_size": 2}
    return expunge.unlearn(model or Counting(), **chosen | options)


class Say(Callback):
    def on_step(self, run: Run) -> None:
        pass


def test_progress_is_silent_where_nobody_watches(capfd: pytest.CaptureFixture[str]) -> None:
    unlearn()
    assert capfd.readouterr() == ("", "")


def test_progress_shows_method_epoch_and_losses_on_a_terminal() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120)
    bar = ProgressBar("SRL-FOCUS", console=console, every=1)
    watched = unlearn(progress=False, epochs=2, callbacks=[bar])
    shown = text.getvalue()
    assert "SRL-FOCUS  epoch 2/2" in shown
    assert "6/6" in shown
    assert "steps/s" in shown
    assert " U " in shown or "U " in shown
    assert same(bits(watched.model), bits(unlearn(epochs=2).model))


def test_progress_ends_with_a_run_that_fails() -> None:
    bar = ProgressBar("x", console=Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(InvalidInput):
        unlearn(
            retain=TensorDataset(torch.zeros(2, 4), torch.tensor([0, 9])),
            callbacks=[bar],
            progress=False,
        )
    assert bar._progress is None
