"""``evaluate``: accuracies, the ideal, attacks, gaps and classes; and what it refuses."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from expunge._errors import InvalidInput
from expunge.evaluation import (
    DIRECTIONS,
    METRICS,
    Predictions,
    Scores,
    Views,
    evaluate,
    member_shares,
    predict,
    score,
)
from expunge.evaluation._scores import LEFT_OUT, agreement, r_squared, rms_difference, rmse
from tests.unit.evaluation.known_answers import FORGET, TEST, Says
from tests.unit.evaluation.known_answers import SPLITS as KNOWN
from tests.unit.evaluation.worlds import Passing, as_dataset, predictions, world

WORLD = world(forget=2.0, retain=3.0, size=200)
SPLITS = {name: as_dataset(part) for name, part in WORLD.items()}
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
    assert all(METRICS[name].direction in DIRECTIONS for name in found)
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


def test_classes_are_scored_one_by_one() -> None:
    part = Predictions(torch.eye(3)[[0, 0, 1, 1]], torch.tensor([0, 0, 0, 1]))
    scores = score(Views(part, part, part))
    assert scores.per_class["ua"][:2] == (pytest.approx(200 / 3), 100.0)
    assert math.isnan(scores.per_class["ua"][2])
    flat = scores.as_dict(per_class=True)
    assert flat["ta_class_1"] == 100.0
    assert "ta_class_2" not in flat


def test_an_ideal_of_another_label_space_is_refused() -> None:
    ideal = predictions(len(WORLD.forget.labels), 0, classes=7)
    with pytest.raises(InvalidInput, match="got 7 and 5"):
        evaluate(Passing(), **SPLITS, ideal=ideal)
    with pytest.raises(InvalidInput, match="same examples"):
        evaluate(Passing(), **SPLITS, ideal=WORLD.test)


def test_accuracies_in_percent() -> None:
    assert evaluate(Says(), **KNOWN) == Scores(ua=60.0, ra=75.0, ta=12.5)


def test_rua_and_fid_against_the_ideal() -> None:
    class Ideal(Says):
        """Says 1 for a pixel of 0, else what the pixel says: right on 1, 2 and the last."""

        def forward(self, x: Tensor) -> Tensor:
            said = x[:, 0, 0, 0].long()
            return nn.functional.one_hot(torch.where(said == 0, 1, said), 4).float()

    scores = evaluate(Says(), **KNOWN, ideal=Ideal())
    assert (scores.ua, scores.rua, scores.fid) == (60.0, 0.0, 60.0)
    worse = evaluate(Says(shift=1), **KNOWN, ideal=Ideal())
    # Says(1) answers 1, 2, 3, 0, 1: right at the last two; like the ideal at the first and last.
    assert (worse.ua, worse.rua, worse.fid) == (40.0, pytest.approx(-20.0), 40.0)
    assert evaluate(Says(), **KNOWN, ideal=Says()).fid == 100.0


def test_the_ideal_may_be_given_as_predictions() -> None:
    ideal = predict(Says(shift=1), FORGET)
    given = evaluate(Says(), **KNOWN, ideal=ideal)
    computed = evaluate(Says(), **KNOWN, ideal=Says(shift=1))
    assert (given.rua, given.fid) == (computed.rua, computed.fid) == (20.0, 0.0)


def test_predictions_of_other_examples_are_refused() -> None:
    with pytest.raises(InvalidInput, match="of the same examples"):
        evaluate(Says(), **KNOWN, ideal=predict(Says(), TEST))


def test_agreement_is_the_share_of_equal_classes() -> None:
    labels = torch.zeros(4, dtype=torch.int64)
    first, second = (
        Predictions(torch.eye(5)[classes], labels) for classes in ([1, 2, 3, 4], [1, 2, 0, 0])
    )
    assert agreement(first, second) == 50.0


def test_scores_as_a_dict_leave_out_what_is_not_known() -> None:
    known = Scores(1.0, 2.0, 3.0).as_dict()
    assert {name: known[name] for name in ("ua", "ra", "ta")} == {"ua": 1.0, "ra": 2.0, "ta": 3.0}
    assert "rua" not in known
    assert "fid" not in known


def test_every_score_has_a_metric() -> None:
    known = dict.fromkeys(METRICS)
    assert {"ua", "ra", "ta", "rua", "fid", "rte"} <= known.keys()
    assert all(METRICS[name].definition for name in METRICS)


def numbers(seed: int, noise: float, count: int = 120) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randn(count, generator=generator)
    return Predictions((labels + noise * torch.randn(count, generator=generator))[:, None], labels)


def numeric_views(noise: float = 0.1) -> Views:
    return Views(
        forget=numbers(0, noise), retain=numbers(1, 0.1), test=numbers(2, 1.0), val=numbers(3, 1.0)
    )


def test_errors_are_their_formulas() -> None:
    part = numbers(5, 0.5)
    errors = [float(o) - float(y) for (o,), y in zip(part.logits, part.labels, strict=True)]
    mean = sum(map(float, part.labels)) / len(part.labels)
    squares = sum(error**2 for error in errors)
    assert rmse(part) == pytest.approx(math.sqrt(squares / len(errors)))
    spread = sum((float(y) - mean) ** 2 for y in part.labels)
    assert r_squared(part) == pytest.approx(1 - squares / spread)
    assert rms_difference(part, part) == 0.0


def test_a_regression_has_errors_and_says_why_it_has_no_accuracies() -> None:
    scores = score(numeric_views(), attacks=True)
    found = scores.as_dict()
    assert {*found} == {
        *("forget_rmse", "retain_rmse", "test_rmse", "val_rmse", "test_r2", "mia_error")
    }
    assert math.isnan(scores.ua)
    assert "a regression has none" in scores.left_out["ua"]
    assert {*scores.left_out} | {*found} <= {*METRICS}
    classes = {f"mia_{name}" for name in ("correctness", "confidence", "logits", "entropy")}
    assert classes | {"ua", "ra", "ta", "rua", "fid"} <= {*LEFT_OUT}


def test_the_attack_on_errors_tells_what_was_trained_on_from_what_was_not() -> None:
    remembered, unseen = (
        score(numeric_views(0.1), attacks=True),
        score(numeric_views(1.0), attacks=True),
    )
    assert remembered.mia_error > 0.8
    assert unseen.mia_error < 0.5


def test_an_ideal_model_gives_gaps_and_a_distance() -> None:
    model, ideal = numeric_views(0.1), numeric_views(1.0)
    scores = score(model, ideal, attacks=True).as_dict()
    assert scores["gap_forget_rmse"] == pytest.approx(rmse(model.forget) - rmse(ideal.forget))
    assert scores["gap_test_rmse"] == 0.0
    assert scores["fid_rmse"] == pytest.approx(rms_difference(model.forget, ideal.forget))
    alone = score(model, ideal.forget).as_dict()
    assert alone["gap_forget_rmse"] == scores["gap_forget_rmse"]
    assert "gap_test_rmse" not in alone


def test_evaluate_knows_a_regression_by_its_labels() -> None:
    parts = [
        TensorDataset(torch.full((6, 1), float(k)), torch.arange(6.0) + 10 * k) for k in range(3)
    ]
    for model in (torch.nn.Identity(), torch.nn.Flatten(0)):  # outputs [N, 1] and [N]
        scores = evaluate(model, forget=parts[0], retain=parts[1], test=parts[2])
        literal = math.sqrt(sum(k**2 for k in range(6)) / 6)
        assert scores.forget_rmse == pytest.approx(literal)
        assert scores.left_out == LEFT_OUT


def test_classes_leave_nothing_out() -> None:
    logits = torch.eye(4)
    part = Predictions(logits, torch.arange(4))
    assert score(Views(forget=part, retain=part, test=part)).left_out == {}
