"""Progress: a bar on a terminal, lines elsewhere, nothing if not wanted."""

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
from expunge.engine._progress import ProgressDisplay
from tests import tiny
from tests.tiny import Counting, bits, points, same

FORGET, RETAIN = points(6), points(8, seed=1)


def unlearn(model: nn.Module | None = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 1, "batch_size": 2}
    return tiny.unlearn(model or Counting(), **chosen | options)


class Say(Callback):
    def on_step(self, run: Run) -> None:
        pass


def test_nothing_is_written_if_progress_is_not_wanted(capfd: pytest.CaptureFixture[str]) -> None:
    unlearn(progress=False)
    assert capfd.readouterr() == ("", "")


def test_there_is_a_line_per_epoch_where_there_is_no_terminal(
    capfd: pytest.CaptureFixture[str],
) -> None:
    watched = unlearn(epochs=2)
    out, err = capfd.readouterr()
    lines = err.splitlines()
    assert out == ""
    assert "\r" not in err
    assert [line.split(":")[0] for line in lines] == [
        "SRL-FOCUS  epoch 1/2",
        "SRL-FOCUS  epoch 2/2",
    ]
    assert all(" U " in line and " C " in line for line in lines)
    assert same(bits(watched.model), bits(unlearn(epochs=2, progress=False).model))


class Compared(Callback):
    def on_epoch(self, run: Run) -> None:
        run.record(ua=91.04, va=85.5)


def test_a_line_has_what_was_compared_and_how_long_it_takes() -> None:
    text = io.StringIO()
    seconds = iter([100.0, 110.0, 120.0, 130.0, 140.0])
    lines = ProgressDisplay("MATCH", console=Console(file=text), clock=lambda: next(seconds))
    unlearn(progress=False, epochs=4, callbacks=[Compared(), lines])
    first, second, *_ = text.getvalue().splitlines()
    assert first == ("MATCH  epoch 1/4: UA 91.0 %, val accuracy 85.5 %, 10 s, about 30 s left")
    assert second.endswith("20 s, about 20 s left")


def test_a_terminal_has_a_bar_with_method_epoch_and_losses_and_no_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("expunge.engine._progress.READ_EVERY", 1)
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=120)
    bar = ProgressDisplay("SRL-FOCUS", console=console)
    watched = unlearn(progress=False, epochs=2, callbacks=[bar])
    shown = text.getvalue()
    assert "SRL-FOCUS  epoch 2/2" in shown
    assert "6/6" in shown
    assert "U " in shown
    assert "left" not in shown
    assert same(bits(watched.model), bits(unlearn(epochs=2).model))


def test_progress_ends_with_a_run_that_fails() -> None:
    bar = ProgressDisplay("x", console=Console(file=io.StringIO(), force_terminal=True))
    with pytest.raises(InvalidInput):
        unlearn(
            retain=TensorDataset(torch.zeros(2, 4), torch.tensor([0, 9])),
            callbacks=[bar],
            progress=False,
        )
    assert bar._bar is None
