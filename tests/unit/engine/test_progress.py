"""Progress: a bar on a terminal, a line in a notebook, the log where it is asked for."""

from __future__ import annotations

import io
from pathlib import Path
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


def test_nothing_is_written_where_there_is_neither_a_terminal_nor_a_notebook(
    capfd: pytest.CaptureFixture[str],
) -> None:
    unlearn(epochs=2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("progress", [True, False])
def test_the_log_has_a_line_per_epoch(progress: bool, caplog: pytest.LogCaptureFixture) -> None:
    silent = unlearn(epochs=2, progress=progress)
    assert caplog.messages == []
    with caplog.at_level("INFO", "expunge"):
        logged = unlearn(epochs=2, progress=progress)
    assert [line.split(":")[0] for line in caplog.messages] == [
        "SRL-FOCUS  epoch 1/2",
        "SRL-FOCUS  epoch 2/2",
    ]
    assert all(" U " in line and " C " in line for line in caplog.messages)
    assert same(bits(logged.model), bits(silent.model))


class Kill(Callback):
    def on_step(self, run: Run) -> None:
        if run.step == 4:
            raise KeyboardInterrupt


def test_a_run_that_resumes_says_so(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = {"epochs": 2, "checkpoint": tmp_path / "run.safetensors", "checkpoint_every": 1}
    with pytest.raises(KeyboardInterrupt):
        unlearn(callbacks=[Kill()], **options)
    capfd.readouterr()
    unlearn(**options)
    assert capfd.readouterr().err == "SRL-FOCUS  resumes after step 3 of 6\n"


class Compared(Callback):
    def on_epoch(self, run: Run) -> None:
        run.record(ua=91.04, va=85.5)


def test_a_notebook_has_one_line_that_is_replaced() -> None:
    text = io.StringIO()
    seconds = iter([100.0, 110.0, 120.0, 130.0, 140.0])
    notebook = Console(file=text, force_jupyter=True)
    lines = ProgressDisplay("MATCH", console=notebook, clock=lambda: next(seconds))
    unlearn(progress=False, epochs=4, callbacks=[Compared(), lines])
    nothing, first, second, _, last = text.getvalue().split("\r")
    assert nothing == ""
    assert first.strip() == (
        "MATCH  epoch 1/4: UA 91.0 %, val accuracy 85.5 %, 10 s, about 30 s left"
    )
    assert second.strip().endswith("20 s, about 20 s left")
    assert [each.count("\n") for each in (first, second, last)] == [0, 0, 1]


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
