"""One inference pass over a split: order, modes, what is refused, and what is remembered."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Subset, TensorDataset

import expunge
from expunge import Callback
from expunge._errors import InvalidInput
from expunge.engine import Run
from expunge.engine._predict import PredictionCache
from expunge.evaluation import (
    Predictions,
    Views,
    evaluate,
    predict,
)
from expunge.evaluation._scores import accuracy
from tests import tiny
from tests.tiny import bits, points, same
from tests.unit.evaluation.known_answers import FORGET, SPLITS, Items, Says
from tests.unit.evaluation.worlds import Passing, as_dataset, world


@pytest.mark.parametrize(
    "wrap",
    [
        lambda data: DataLoader(data, batch_size=3),
        Items,
        lambda data: DataLoader(Items(data), batch_size=2),
        lambda data: TensorDataset(data.images, data.labels),
        lambda data: Subset(data, range(len(data))),
        lambda data: Subset(Items(data), range(len(data))),
    ],
)
def test_every_kind_of_data_gives_the_same_scores(wrap: Any) -> None:
    wrapped = {name: wrap(data) for name, data in SPLITS.items()}
    expected = evaluate(Says(), **SPLITS, ideal=Says(shift=1))
    assert evaluate(Says(), **wrapped, ideal=Says(shift=1)) == expected


@pytest.mark.parametrize("batch_size", [1, 2, 5, 1000])
def test_predictions_keep_the_order_of_the_split(batch_size: int) -> None:
    found = predict(Says(), FORGET, batch_size=batch_size)
    assert found.classes.tolist() == [0, 1, 2, 3, 0]
    assert found.labels.tolist() == FORGET.labels.tolist()
    assert found.logits.shape == (5, 4)


@pytest.mark.parametrize("training", [False, True])
def test_the_mode_is_put_back_and_eval_mode_was_used(training: bool) -> None:
    model = Says().train(training)
    assert accuracy(predict(model, FORGET)) == 60.0  # dropout at 0.9 would spoil it
    assert model.training is training
    assert model.dropout.training is training


def test_the_mode_is_put_back_after_a_failure() -> None:
    model = Says().train()
    with pytest.raises(InvalidInput, match="too many indices"):
        predict(model, TensorDataset(torch.zeros(2), torch.zeros(2)))
    assert model.training


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(InvalidInput, match="should not be empty"):
        predict(Says(), DataLoader(TensorDataset(torch.zeros(0, 1), torch.zeros(0))))


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused(value: float) -> None:
    logits = torch.zeros(3, 2)
    logits[1, 0] = value
    with pytest.raises(InvalidInput, match=r"1 of 3 examples .* the first at index 1"):
        predict(Passing(), TensorDataset(logits, torch.zeros(3, dtype=torch.int64)))


def test_labels_beyond_the_models_classes_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"in 0\.\.1"):
        Views(*[Predictions(torch.zeros(2, 2), torch.tensor([0, 2]))] * 2)


def test_predict_leaves_every_modules_mode_as_it_was() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(5))
    model.train()
    model[1].eval()
    predict(model, as_dataset(world(forget=2.0, size=200).forget))
    assert (model.training, model[0].training, model[1].training) == (True, True, False)


DATA, OTHER = points(6), points(5, seed=1)


class Asked(nn.Module):
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
def model() -> Asked:
    return Asked().eval()


def test_the_same_question_is_answered_once(model: Asked) -> None:
    cache = PredictionCache()
    first, again = cache(model, DATA), cache(model, DATA)
    assert model.seen == 6
    assert torch.equal(first.logits, again.logits)
    assert torch.equal(first.logits, predict(model, DATA).logits)
    cache(model, OTHER)
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
    model: Asked, change: Callable[[nn.Module], None]
) -> None:
    cache = PredictionCache()
    cache(model, DATA)
    change(model)
    model.seen = 0
    assert torch.equal(cache(model, DATA).logits, predict(model, DATA).logits)
    assert model.seen == 12


def test_models_and_data_that_cannot_be_watched_are_asked_every_time(model: Asked) -> None:
    cache = PredictionCache()
    examples = [DATA[k] for k in range(6)]
    for _ in range(2):
        cache(model, examples)
    assert model.seen == 12, "a list cannot be referred to weakly"
    with torch.inference_mode():
        frozen = Asked().eval()
    for _ in range(2):
        cache(frozen, DATA)
    assert frozen.seen == 12, "tensors made in inference mode do not count their changes"


class Look(Callback):
    """Looks at the data that the method looks at before the next epoch."""

    def __init__(self) -> None:
        self.epochs: list[int] = []

    def on_epoch(self, run: Run) -> None:
        assert isinstance(run.model, Asked)
        before = run.model.seen
        run.predictions(run.model, UNSEEN)
        self.epochs.append(run.model.seen - before)


TO_FORGET, KEPT, UNSEEN = points(8), points(24, seed=2), points(12, seed=3)


def matched(*callbacks: Callback) -> expunge.Result:
    return tiny.unlearn(
        Asked(),
        forget=TO_FORGET,
        retain=KEPT,
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
