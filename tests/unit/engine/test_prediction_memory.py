"""Predictions are made once per model, weights and data."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import expunge
from expunge import Callback
from expunge.engine import Run
from expunge.engine._predict import predict
from expunge.engine._prediction_memory import cached_predict, drop_predictions, keep_prediction
from tests import tiny
from tests.tiny import bits, points, same

DATA, OTHER = points(6), points(5, seed=1)


class Passing(nn.Module):
    """A linear model that counts the examples it is asked about in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner = nn.Sequential(nn.BatchNorm1d(4), nn.Linear(4, 3))
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 0 if self.training else len(x)
        return self.inner(x)  # type: ignore[no-any-return]


@pytest.fixture
def model() -> Passing:
    return Passing().eval()


def test_the_same_question_is_answered_once(model: Passing) -> None:
    first, again = cached_predict(model, DATA), cached_predict(model, DATA)
    assert model.seen == 6
    assert torch.equal(first.logits, again.logits)
    assert torch.equal(first.logits, predict(model, DATA).logits)
    cached_predict(model, OTHER)
    assert model.seen == 6 + 6 + 5


@torch.no_grad()
def _in_place(model: nn.Module) -> None:
    next(model.parameters()).mul_(2.0)


def _loaded(model: nn.Module) -> None:
    model.load_state_dict(copy.deepcopy(model.state_dict()))


def _stepped(model: nn.Module) -> None:
    model(DATA.tensors[0]).sum().backward()
    torch.optim.Adam(model.parameters(), fused=True).step()


def _new_statistics(model: nn.Module) -> None:
    model.train()(DATA.tensors[0])
    model.eval()


def _replaced(model: nn.Module) -> None:
    model.inner[1].weight = nn.Parameter(torch.zeros(3, 4))  # type: ignore[index, union-attr]


@pytest.mark.parametrize("change", [_in_place, _loaded, _stepped, _new_statistics, _replaced])
def test_a_model_that_changed_is_asked_again(
    model: Passing, change: Callable[[nn.Module], None]
) -> None:
    cached_predict(model, DATA)
    change(model)
    model.seen = 0
    assert torch.equal(cached_predict(model, DATA).logits, predict(model, DATA).logits)
    assert model.seen == 12


def test_what_was_predicted_otherwise_can_be_kept_and_dropped(model: Passing) -> None:
    kept = predict(model, DATA)
    keep_prediction(model, DATA, kept)
    assert cached_predict(model, DATA) is kept
    drop_predictions(model)
    assert cached_predict(model, DATA) is not kept


def test_models_and_data_that_cannot_be_watched_are_asked_every_time(model: Passing) -> None:
    examples = [DATA[k] for k in range(6)]
    for _ in range(2):
        cached_predict(model, examples)
    assert model.seen == 12, "a list cannot be referred to weakly"
    with torch.inference_mode():
        frozen = Passing().eval()
    for _ in range(2):
        cached_predict(frozen, DATA)
    assert frozen.seen == 12, "tensors made in inference mode do not count their changes"


class Look(Callback):
    """Looks at the data that the method looks at before the next epoch."""

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def on_epoch(self, run: Run) -> None:
        assert isinstance(run.model, Passing)
        before = run.model.seen
        cached_predict(run.model, UNSEEN)
        self.epochs.append(run.model.seen - before)


FORGET, RETAIN, UNSEEN = points(8), points(24, seed=2), points(12, seed=3)


def matched(*callbacks: Callback) -> expunge.Result:
    return tiny.unlearn(
        Passing(),
        forget=FORGET,
        retain=RETAIN,
        unseen=UNSEEN,
        method="MATCH",
        epochs=3,
        batch_size=4,
        callbacks=callbacks,
        progress=False,
    )


def test_a_callback_and_the_method_share_a_pass_and_change_no_bit() -> None:
    look = Look()
    alone, watched = matched(), matched(look)
    assert look.epochs == [12, 12, 12]
    seen = [result.model.seen for result in (alone, watched)]
    assert seen[1] == seen[0] + 12, "two of the three looks are those of the next epochs"
    assert same(bits(alone.model), bits(watched.model))
