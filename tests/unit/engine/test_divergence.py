"""A run that blows up stops, says what to do, and hands back the last good weights."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import TensorDataset

import expunge
from expunge import Callback, Diverged
from expunge.data._sources import ArraySource
from expunge.engine import Run
from tests import tiny
from tests.tiny import Counting, TinyConv, bits, images, points, same

FORGET, RETAIN = points(8), points(8, seed=1)


class Trail(Callback):
    """The weights after every step, the initial ones first."""

    def __init__(self) -> None:
        self.states: list[dict[str, Tensor]] = []

    def on_start(self, run: Run) -> None:
        self.states.append(bits(run.model))

    def on_step(self, run: Run) -> None:
        self.states.append(bits(run.model))


def diverge(model: nn.Module, **options: Any) -> tuple[Diverged, Trail]:
    trail = Trail()
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "batch_size": 2, "epochs": 3}
    with pytest.raises(Diverged) as caught:
        tiny.unlearn(model, callbacks=[trail], **chosen | options)
    return caught.value, trail


@pytest.mark.parametrize("method", ["neg-grad-plus", "gradient-ascent", "random-label", "scrub"])
def test_a_monstrous_rate_diverges_with_the_weights_from_before_the_leap(method: str) -> None:
    model = Counting()
    error, trail = diverge(model, method=method, addon="none", lr=1e38)
    assert "Diverged at step 2 (epoch 1)" in str(error)
    assert "Lower the learning rate" in str(error)
    assert len(trail.states) == 2
    assert same(bits(error.result.model), bits(model))
    assert error.result.history.epochs == []


def test_finite_weights_with_infinite_outputs_after_the_last_step_are_found() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
    error, trail = diverge(model, batch_size=8, epochs=1, addon="none", lr=1e30)
    assert "Diverged at the last step (1)" in str(error)
    assert all(bool(tensor.isfinite().all()) for tensor in trail.states[-1].values())
    assert same(bits(error.result.model), bits(model))


def poisoned(data: TensorDataset, step: int) -> TensorDataset:
    """``data`` with a nan in an example that retain comes to at ``step``."""
    x, y = data.tensors
    batches = ArraySource(x, y, "retain", batch_size=2, seed=0, augment=None).walk(0, step - 1)
    bad = (x == next(batches).inputs[0]).flatten(1).all(dim=1)
    assert int(bad.sum()) == 1
    return TensorDataset(x.masked_fill(bad.view(-1, *[1] * (x.dim() - 1)), float("nan")), y)


@pytest.mark.parametrize("step", [1, 2, 5])
def test_a_nan_among_the_inputs_stops_before_it_reaches_the_weights(step: int) -> None:
    retain = poisoned(points(20, seed=1), step)
    error, trail = diverge(Counting(), retain=retain, method="neg-grad-plus")
    assert f"Diverged at step {step} " in str(error)
    assert len(trail.states) == step
    # The last weights known to be good: those whose losses and gradients were seen to be finite.
    assert same(bits(error.result.model), trail.states[max(step - 2, 0)])


def test_batchnorm_statistics_are_restored_too() -> None:
    retain = poisoned(images(20, seed=1), 4)
    error, _ = diverge(TinyConv(), forget=images(8), retain=retain, method="neg-grad-plus")
    assert "Diverged at step 4 " in str(error)
    assert all(value.isfinite().all() for value in bits(error.result.model).values())
    assert not any(module.training for module in error.result.model.modules())


def test_a_last_step_to_infinity_does_not_pass_for_a_result() -> None:
    def steep(logits: Tensor, targets: Tensor) -> Tensor:
        return 1e3 * F.cross_entropy(logits, targets)

    model = Counting()
    error, _ = diverge(
        model,
        forget=points(2),
        method="neg-grad-plus",
        addon="none",
        epochs=1,
        lr=1e38,
        loss=steep,
        optimizer=torch.optim.SGD,
    )
    assert "a weight or loss is not finite" in str(error)
    assert same(bits(error.result.model), bits(model))


def test_the_history_up_to_the_divergence_is_kept() -> None:
    retain = poisoned(points(20, seed=1), 4)
    error, _ = diverge(Counting(), forget=points(2), retain=retain, epochs=20)
    assert error.result.history.column("epoch") == [1, 2, 3]


def test_training_stops_at_divergence_too() -> None:
    with pytest.raises(Diverged, match="Lower the learning rate") as caught:
        tiny.train(Counting(), RETAIN, recipe=expunge.Recipe(epochs=5, batch_size=2, lr=1e38))
    assert all(value.isfinite().all() for value in bits(caught.value.result.model).values())


class Content(Callback):
    """Takes the last good weights for a result."""

    def on_divergence(self, run: Run, error: Diverged) -> bool:
        return "last good weights" in str(error)


@pytest.mark.parametrize("step", [2, 4])
def test_a_callback_can_end_a_run_that_diverges_with_the_last_good_weights(step: int) -> None:
    retain = poisoned(points(20, seed=1), step)
    error, trail = diverge(Counting(), forget=points(4), retain=retain)
    options: dict[str, Any] = {"forget": points(4), "retain": retain, "batch_size": 2, "epochs": 3}
    result = tiny.unlearn(Counting(), callbacks=[Content()], **options)
    assert same(bits(result.model), bits(error.result.model))
    assert same(bits(result.model), trail.states[step - 2])
    assert len(result.history.epochs) == (step - 1) // 2
