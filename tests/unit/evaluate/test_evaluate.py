"""``evaluate`` beyond accuracies: attacks, gaps, classes, the kept ideal; and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from expunge._errors import InvalidInput
from expunge.data import ImageSet
from expunge.evaluation import (
    DIRECTIONS,
    METRICS,
    Predictions,
    Views,
    check_overlap,
    evaluate,
    member_shares,
    predict,
    score,
    view,
)

from .worlds import predictions, world


class Passing(nn.Module):
    """Its inputs are its logits; counts its passes."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))
        self.seen = 0

    def forward(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return x * self.factor


def data(part: Predictions) -> TensorDataset:
    return TensorDataset(part.logits, part.labels)


WORLD = world(forget=2.0, retain=3.0, size=200)
SPLITS = {name: data(part) for name, part in WORLD.items()}
ROWS = sum(len(part.labels) for _, part in WORLD.items())


def test_one_pass_a_split_feeds_everything() -> None:
    model = Passing()
    scores = evaluate(model, **SPLITS, attacks=True)
    assert model.seen == ROWS
    shares = member_shares(WORLD)
    assert {f"mia_{name.replace('-', '_')}": v for name, v in shares.items()} == {
        name: value for name, value in scores.as_dict().items() if name.startswith("mia")
    }


def test_attacks_are_left_out_unless_asked_for() -> None:
    assert not any(name.startswith("mia") for name in evaluate(Passing(), **SPLITS).as_dict())


def test_every_score_is_a_registered_metric_with_a_direction() -> None:
    found = evaluate(Passing(), **SPLITS, ideal=Passing(0.5), attacks=True).as_dict()
    assert all(METRICS[name].good in DIRECTIONS.values() for name in found)
    assert all(isinstance(value, float) for value in found.values())
    assert all(METRICS[name].definition and METRICS[name].unit for name in METRICS)


def test_gaps_are_to_the_ideal_under_the_same_attack() -> None:
    ideal = Passing(-1.0)
    scores = evaluate(Passing(), **SPLITS, ideal=ideal, attacks=True)
    best = evaluate(ideal, **SPLITS, attacks=True)
    for name, gap in scores.gaps.items():
        assert gap == pytest.approx(getattr(scores, name) - getattr(best, name))
    assert {"ra", "ta", "va", "mia_entropy"} <= scores.gaps.keys()
    assert scores.rua == pytest.approx(scores.ua - best.ua)


def test_the_ideals_passes_are_made_once_until_it_changes() -> None:
    ideal = Passing()
    first = evaluate(Passing(), **SPLITS, ideal=ideal)
    assert evaluate(Passing(), **SPLITS, ideal=ideal) == first
    assert ideal.seen == ROWS
    ideal.factor.data.fill_(-1.0)
    assert evaluate(Passing(), **SPLITS, ideal=ideal).fid != first.fid
    assert ideal.seen == 2 * ROWS
    evaluate(Passing(), **SPLITS | {"test": data(WORLD.test)}, ideal=ideal)
    assert ideal.seen == 3 * ROWS


def test_classes_are_scored_one_by_one() -> None:
    part = Predictions(torch.eye(3)[[0, 0, 1, 1]], torch.tensor([0, 0, 0, 1]))
    scores = score(Views(part, part, part))
    assert scores.per_class["ua"][:2] == (pytest.approx(200 / 3), 100.0)
    assert math.isnan(scores.per_class["ua"][2])
    flat = scores.as_dict(per_class=True)
    assert flat["ta_class_1"] == 100.0
    assert "ta_class_2" not in flat


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_refused(value: float) -> None:
    logits = torch.zeros(3, 2)
    logits[1, 0] = value
    with pytest.raises(InvalidInput, match=r"1 of 3 examples .* the first at index 1"):
        predict(Passing(), TensorDataset(logits, torch.zeros(3, dtype=torch.int64)))


def test_an_ideal_of_another_label_space_is_refused() -> None:
    ideal = predictions(len(WORLD.forget.labels), 0, classes=7)
    with pytest.raises(InvalidInput, match="got 7 and 5"):
        evaluate(Passing(), **SPLITS, ideal=ideal)
    with pytest.raises(InvalidInput, match="same examples"):
        evaluate(Passing(), **SPLITS, ideal=WORLD.test)


def test_labels_beyond_the_models_classes_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"in 0\.\.1"):
        Views(*[Predictions(torch.zeros(2, 2), torch.tensor([0, 2]))] * 2)


def test_predict_leaves_every_modules_mode_as_it_was() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(5))
    model.train()
    model[1].eval()
    predict(model, SPLITS["forget"])
    assert (model.training, model[0].training, model[1].training) == (True, True, False)


def test_view_gathers_the_splits() -> None:
    found = view(Passing(), **SPLITS)
    assert all(torch.equal(part.logits, found.split(name).logits) for name, part in WORLD.items())


def images(*levels: int) -> ImageSet:
    pixels = torch.tensor(levels, dtype=torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 3, 4, 4)
    return ImageSet(pixels, torch.zeros(len(levels), dtype=torch.int64), ["a", "b"])


def test_test_images_seen_in_training_are_counted_and_refused() -> None:
    parts = {"forget": images(1, 2), "retain": images(3, 4, 5)}
    with pytest.raises(InvalidInput, match=r"3 of 4 test .*\(1 in forget, 2 in retain\)"):
        check_overlap(parts, images(2, 3, 3, 9))
    found = check_overlap(parts, images(2, 3, 3, 9), allow_overlap=True)
    assert (found.indices, dict(found.counts)) == ((0, 1, 2), {"forget": 1, "retain": 2})
    assert not check_overlap(parts, images(7, 8))


def test_overlap_of_arrays_and_other_data_sets() -> None:
    rows = torch.randn(6, 3)
    labelled = torch.utils.data.Subset(TensorDataset(rows, torch.zeros(6)), [0, 1])
    assert check_overlap({"train": rows.numpy()}, labelled, allow_overlap=True).indices == (0, 1)
    pairs = [(rows[0], 0), (rows[0] + 1, 1)]
    assert check_overlap({"train": rows}, Listed(pairs), allow_overlap=True).indices == (0,)


class Listed(torch.utils.data.Dataset[tuple[Tensor, int]]):
    def __init__(self, pairs: list[tuple[Tensor, int]]) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.pairs[index]
