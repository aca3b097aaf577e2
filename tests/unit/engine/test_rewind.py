"""Rewinding: which epoch is taken, what is kept, and what a checkpoint carries over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import expunge
from expunge import Callback, InvalidInput, Result, Rewind
from expunge.engine import Run
from expunge.engine._rewind import error_in_class_mix
from expunge.methods import METHODS
from tests import tiny
from tests.tiny import CLASSES, TinyConv, bits, images, same, without_seconds
from tests.unit.engine.test_checkpoint import KillAt, Killed

FORGET, RETAIN, UNSEEN = images(9, seed=1), images(12, seed=2), images(10, seed=3)


class Weights(Callback):
    """The weights after each epoch."""

    def __init__(self) -> None:
        self.states: list[dict[str, Tensor]] = []

    def on_epoch(self, run: Run) -> None:
        self.states.append(bits(run.model))


class Bias(Callback):
    """Moves the model so that its error on forget data is known after each epoch.

    It predicts class 0 of everything, then class 1, and so on: 1 minus the share of that class.
    """

    def on_epoch(self, run: Run) -> None:
        with torch.no_grad():
            run.model.head.bias.copy_(1e4 * torch.eye(CLASSES)[(run.epoch - 1) % CLASSES])


def unlearn(**options: Any) -> Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "unseen": UNSEEN}
    chosen |= {"method": "NGPlus", "addon": "none", "epochs": 4, "batch_size": 4, "lr": 1e-2}
    return tiny.unlearn(TinyConv(), **chosen | {"progress": False} | options)


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 12))
def test_the_error_is_that_of_data_with_the_other_class_mix(seed: int, m: int, n: int) -> None:
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(m, CLASSES, generator=random)
    labels = torch.randint(CLASSES, (m,), generator=random)
    mix = torch.randint(CLASSES, (n,), generator=random)
    errors = []
    for wanted in mix.tolist():  # one average example of its class for every one in the mix
        here = [i for i in range(m) if int(labels[i]) == wanted]
        if here:
            errors.append(sum(int(logits[i].argmax()) != wanted for i in here) / len(here))
    if not errors:
        errors = [float(int(logits[i].argmax()) != int(labels[i])) for i in range(m)]
    assert error_in_class_mix(logits, labels, mix) == pytest.approx(sum(errors) / len(errors))


class Shuffle(Callback):
    """Gives the model another head after each epoch, so that its errors go up and down."""

    def on_epoch(self, run: Run) -> None:
        random = torch.Generator().manual_seed(run.epoch)
        with torch.no_grad():
            run.model.head.weight.copy_(torch.randn(CLASSES, 4, generator=random))


def test_the_epoch_nearest_to_the_last_error_on_unseen_data_is_taken() -> None:
    weights, rewind = Weights(), Rewind()
    result = unlearn(epochs=8, callbacks=[Shuffle(), weights, rewind])
    errors = result.history.column("forget_error")
    reference = result.history.column("unseen_error")[-1]
    distances = [abs(error - reference) for error in errors]
    chosen = max(k for k in range(8) if distances[k] == min(distances))
    assert chosen < 7  # else there is nothing to go back to
    assert rewind.epoch == chosen + 1
    assert result.history.epochs[-1]["rewound_to"] == chosen + 1
    assert same(bits(result.model), weights.states[chosen])


@pytest.mark.parametrize(("reference", "epoch"), [(8 / 9, 4), (7 / 9, 5), (0.0, 6), (1.0, 4)])
def test_of_equally_near_epochs_the_last_is_taken(reference: float, epoch: int) -> None:
    """The errors are 8/9, 7/9 and 3/9, twice."""
    x, _ = FORGET.tensors
    forget = torch.utils.data.TensorDataset(x, torch.tensor([0, 1, 1, 2, 2, 2, 2, 2, 2]))
    weights, rewind = Weights(), Rewind(reference)
    result = unlearn(forget=forget, unseen=None, epochs=6, callbacks=[Bias(), weights, rewind])
    shares = [8 / 9, 7 / 9, 3 / 9] * 2
    assert result.history.column("forget_error") == pytest.approx(shares)
    assert rewind.epoch == epoch
    assert same(bits(result.model), weights.states[epoch - 1])


def test_with_a_given_reference_one_epoch_is_kept() -> None:
    rewind = Rewind(0.4)
    unlearn(callbacks=[rewind], unseen=None)
    assert len(rewind.state_dict()["kept"]) == 1
    every = Rewind()
    unlearn(callbacks=[every])
    assert len(every.state_dict()["kept"]) == 4


@pytest.mark.parametrize("step", [2, 5, 7])
def test_a_killed_run_resumes_to_the_same_epoch_and_bits(tmp_path: Path, step: int) -> None:
    whole_rewind = Rewind()
    whole = unlearn(callbacks=[whole_rewind])
    kept = {"checkpoint": tmp_path / "run", "checkpoint_every": 1}
    with pytest.raises(Killed):
        unlearn(callbacks=[Rewind(), KillAt(step)], **kept)
    for _ in range(2):  # resumed, and then finished already
        rewind = Rewind()
        again = unlearn(callbacks=[rewind], **kept)
        assert rewind.epoch == whole_rewind.epoch
        assert same(bits(again.model), bits(whole.model))
        assert without_seconds(again.history) == without_seconds(whole.history)


def test_a_callback_that_is_used_again_starts_afresh() -> None:
    rewind = Rewind()
    first = unlearn(callbacks=[rewind])
    second = unlearn(callbacks=[rewind])
    assert same(bits(first.model), bits(second.model))
    assert len(rewind.state_dict()["kept"]) == 4


def test_a_run_that_is_stopped_rewinds_among_the_epochs_it_has() -> None:
    class Stop(Callback):
        def on_step(self, run: Run) -> None:
            if run.step == 1:
                run.stop()

    rewind = Rewind()
    unlearn(callbacks=[Stop(), rewind])
    assert rewind.epoch is None


@pytest.mark.parametrize("method", [name for name in METHODS if name != "retrain"])
def test_it_goes_with_every_method(method: str) -> None:
    rewind = Rewind()
    if method == "adversarial-examples":
        method = expunge.methods.AdversarialExamples(radius=0.5, steps=5)  # type: ignore[assignment]
    unlearn(method=method, epochs=2, batch_size=9, callbacks=[rewind])
    assert rewind.epoch in (1, 2)


def test_without_unseen_data_the_remedy_is_named() -> None:
    with pytest.raises(InvalidInput, match="give `unseen`"):
        unlearn(unseen=None, callbacks=[Rewind()])


def test_an_error_is_a_share() -> None:
    with pytest.raises(InvalidInput, match="got 40"):
        Rewind(40)
