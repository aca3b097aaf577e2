"""One inference pass over a split: order, modes, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from expunge._errors import InvalidInput
from expunge.evaluation import (
    Predictions,
    Views,
    evaluate,
    predict,
)
from expunge.evaluation._scores import accuracy
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
