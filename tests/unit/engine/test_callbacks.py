"""A user's callbacks: order, records, stopping, states, and what they must not disturb."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from expunge import Callback, InvalidInput, Result
from expunge import _tensors as tensors
from expunge.engine import Run
from expunge.evaluation import predict
from tests import tiny
from tests.tiny import TinyConv, bits, images, same, without_seconds

FORGET, RETAIN = images(11, seed=1), images(14, seed=2)


def unlearn(model: nn.Module | None = None, **options: Any) -> Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 2, "batch_size": 4}
    return tiny.unlearn(model or TinyConv(), **chosen | {"lr": 1e-2} | options)


def test_callbacks_are_called_in_order_and_can_record() -> None:
    calls: list[tuple[str, int]] = []

    class Log(Callback):
        def on_start(self, run: Run) -> None:
            calls.append(("start", run.step))

        def on_step(self, run: Run) -> None:
            calls.append(("step", run.step))
            assert run.losses[0] == pytest.approx(run.losses[0])

        def on_epoch(self, run: Run) -> None:
            calls.append(("epoch", run.epoch))
            run.record(mine=10.0 * run.epoch)

        def on_end(self, run: Run) -> None:
            calls.append(("end", run.step))

    history = unlearn(callbacks=[Log()]).history
    assert calls == [
        *[("start", 0), ("step", 1), ("step", 2), ("step", 3), ("epoch", 1)],
        *[("step", 4), ("step", 5), ("step", 6), ("epoch", 2), ("end", 6)],
    ]
    assert history.column("mine") == [10.0, 20.0]


def test_recording_before_the_first_epoch_is_refused() -> None:
    class Early(Callback):
        def on_step(self, run: Run) -> None:
            run.record(x=1.0)

    with pytest.raises(InvalidInput, match="none before the first"):
        unlearn(callbacks=[Early()])


def test_a_callback_can_stop_the_run() -> None:
    class Stop(Callback):
        def on_step(self, run: Run) -> None:
            self.last = run.step
            if run.step == 4:
                run.stop()

    stop = Stop()
    result = unlearn(epochs=50, callbacks=[stop])
    assert stop.last == 4
    assert len(result.history.epochs) == 1


def test_time_in_callbacks_is_not_counted() -> None:
    class Slow(Callback):
        def on_step(self, run: Run) -> None:
            time.sleep(0.5)

    assert unlearn(epochs=1, callbacks=[Slow()]).history.seconds < 1.0


def test_callbacks_do_not_disturb_the_run() -> None:
    class Nosy(Callback):
        def on_step(self, run: Run) -> None:
            torch.rand(3)
            random.random()
            np.random.rand()  # noqa: NPY002
            predict(run.model, RETAIN)
            run.model.eval()

    state = np.random.get_state()  # noqa: NPY002
    watched = unlearn(TinyConv(dropout=0.5), callbacks=[Nosy()])
    np.random.set_state(state)  # noqa: NPY002
    assert same(bits(watched.model), bits(unlearn(TinyConv(dropout=0.5)).model))


def test_a_failing_on_start_still_reaches_on_end() -> None:
    ended: list[bool] = []

    class Fails(Callback):
        def on_start(self, run: Run) -> None:
            raise KeyError("mine")

        def on_end(self, run: Run) -> None:
            ended.append(True)

    with pytest.raises(KeyError, match="mine"):
        unlearn(callbacks=[Fails()])
    assert ended == [True]


class Restless(Callback):
    """Lowers the rate every epoch, counts, and returns to where the first epoch ended."""

    def __init__(self, kill: int = 0) -> None:
        self.count, self.kill = 0, kill
        self.kept: Any = None

    def on_epoch(self, run: Run) -> None:
        self.count += 1
        run.optimizer.param_groups[0]["lr"] *= 0.7
        if self.kept is None:
            self.kept = bits(run.model)
        elif self.count == 2:
            run.model.load_state_dict(self.kept)

    def on_step(self, run: Run) -> None:
        if run.step == self.kill:
            raise KeyboardInterrupt

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "kept": self.kept}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.kept = state["count"], state["kept"]


@pytest.mark.parametrize("kill", [1, 5, 7, 8, 11])
def test_killed_run_with_a_steering_callback_resumes_to_the_same_bits(
    kill: int, tmp_path: Path
) -> None:
    whole = unlearn(TinyConv(dropout=0.5), epochs=4, callbacks=[Restless()], progress=False)
    options: dict[str, Any] = {"epochs": 4, "checkpoint": tmp_path / "c", "checkpoint_every": 2}
    with pytest.raises(KeyboardInterrupt):
        unlearn(TinyConv(dropout=0.5), callbacks=[Restless(kill)], **options)
    again = unlearn(
        TinyConv(dropout=0.5), callbacks=[Callback(), Restless()], progress=False, **options
    )
    assert same(bits(again.model), bits(whole.model))
    assert without_seconds(again.history) == without_seconds(whole.history)


def test_callbacks_without_state_add_nothing_to_a_checkpoint(tmp_path: Path) -> None:
    unlearn(epochs=1, checkpoint=tmp_path / "c", callbacks=[Callback()])
    arrays, notes = tensors.load(tmp_path / "c")
    assert tensors.unpack(arrays, notes["tree"])["callbacks"] == []
