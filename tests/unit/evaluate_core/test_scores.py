"""UA, RA, TA, rUA and FID on a model whose every answer is known."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from expunge import ImageSet, InvalidInput, evaluate
from expunge.evaluation import METRICS, Scores, predict
from expunge.evaluation._scores import accuracy, agreement


class Says(nn.Module):
    """Predicts what the top left pixel says, plus a shift."""

    def __init__(self, shift: int = 0) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(float(shift)))
        self.dropout = nn.Dropout(0.9)

    def forward(self, x: Tensor) -> Tensor:
        said = (x[:, 0, 0, 0].float() + self.shift).long() % 4
        return self.dropout(nn.functional.one_hot(said, 4).float())


def answers(said: list[int], labels: list[int]) -> ImageSet:
    images = torch.zeros(len(said), 1, 2, 2, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.tensor(said, dtype=torch.uint8)
    return ImageSet(images, torch.tensor(labels), ["a", "b", "c", "d"])


FORGET = answers([0, 1, 2, 3, 0], [0, 1, 2, 0, 1])  # 3 of 5 right
RETAIN = answers([0, 1, 2, 3], [0, 1, 2, 0])  # 3 of 4 right
TEST = answers([0, 1, 2, 3, 3, 3, 3, 3], [1, 1, 1, 1, 1, 1, 1, 1])  # 1 of 8 right
SPLITS: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "test": TEST}


class Items(Dataset[Any]):
    def __init__(self, base: ImageSet) -> None:
        self.base = base

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        x, y = self.base[index]
        return x, int(y)


def test_accuracies_in_percent() -> None:
    assert evaluate(Says(), **SPLITS) == Scores(ua=60.0, ra=75.0, ta=12.5)


def test_rua_and_fid_against_the_ideal() -> None:
    class Ideal(Says):
        """Says 1 for a pixel of 0, else what the pixel says: right on 1, 2 and the last."""

        def forward(self, x: Tensor) -> Tensor:
            said = x[:, 0, 0, 0].long()
            return nn.functional.one_hot(torch.where(said == 0, 1, said), 4).float()

    scores = evaluate(Says(), **SPLITS, ideal=Ideal())
    assert (scores.ua, scores.rua, scores.fid) == (60.0, 0.0, 60.0)
    worse = evaluate(Says(shift=1), **SPLITS, ideal=Ideal())
    # Says(1) answers 1, 2, 3, 0, 1: right at the last two; like the ideal at the first and last.
    assert (worse.ua, worse.rua, worse.fid) == (40.0, pytest.approx(-20.0), 40.0)
    assert evaluate(Says(), **SPLITS, ideal=Says()).fid == 100.0


def test_the_ideal_may_be_given_as_predictions() -> None:
    ideal = predict(Says(shift=1), FORGET)
    given = evaluate(Says(), **SPLITS, ideal=ideal)
    computed = evaluate(Says(), **SPLITS, ideal=Says(shift=1))
    assert (given.rua, given.fid) == (computed.rua, computed.fid) == (20.0, 0.0)


def test_predictions_of_other_examples_are_refused() -> None:
    with pytest.raises(InvalidInput, match="of the same examples"):
        evaluate(Says(), **SPLITS, ideal=predict(Says(), TEST))


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
    with pytest.raises(IndexError):
        predict(model, TensorDataset(torch.zeros(2), torch.zeros(2)))
    assert model.training


def test_an_empty_split_is_refused() -> None:
    with pytest.raises(InvalidInput, match="should not be empty"):
        predict(Says(), DataLoader(TensorDataset(torch.zeros(0, 1), torch.zeros(0))))


def test_agreement_is_the_share_of_equal_places() -> None:
    assert agreement(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 0, 0])) == 50.0


def test_scores_as_a_dict_leave_out_what_is_not_known() -> None:
    known = Scores(1.0, 2.0, 3.0).as_dict()
    assert {name: known[name] for name in ("ua", "ra", "ta")} == {"ua": 1.0, "ra": 2.0, "ta": 3.0}
    assert "rua" not in known
    assert "fid" not in known


def test_every_score_has_a_metric() -> None:
    known = dict.fromkeys(METRICS)
    assert {"ua", "ra", "ta", "rua", "fid", "rte"} <= known.keys()
    assert all(METRICS[name].definition for name in METRICS)
