"""What a regression is scored by, and what it is not, and why."""

from __future__ import annotations

import math

import pytest
import torch
from torch.utils.data import TensorDataset

import expunge
from expunge.evaluation import METRICS, Predictions, Views, score
from expunge.evaluation._regression_scores import LEFT_OUT, r_squared, rms_difference, rmse


def numbers(seed: int, noise: float, count: int = 120) -> Predictions:
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randn(count, generator=generator)
    return Predictions((labels + noise * torch.randn(count, generator=generator))[:, None], labels)


def views(noise: float = 0.1) -> Views:
    return Views(
        forget=numbers(0, noise), retain=numbers(1, 0.1), test=numbers(2, 1.0), val=numbers(3, 1.0)
    )


def test_errors_are_their_formulas():
    part = numbers(5, 0.5)
    errors = [float(o) - float(y) for (o,), y in zip(part.logits, part.labels, strict=True)]
    mean = sum(map(float, part.labels)) / len(part.labels)
    squares = sum(error**2 for error in errors)
    assert rmse(part) == pytest.approx(math.sqrt(squares / len(errors)))
    spread = sum((float(y) - mean) ** 2 for y in part.labels)
    assert r_squared(part) == pytest.approx(1 - squares / spread)
    assert rms_difference(part, part) == 0.0


def test_a_regression_has_errors_and_says_why_it_has_no_accuracies():
    scores = score(views(), attacks=True)
    found = scores.as_dict()
    assert {*found} == {
        *("forget_rmse", "retain_rmse", "test_rmse", "val_rmse", "test_r2", "mia_error")
    }
    assert math.isnan(scores.ua)
    assert "a regression has none" in scores.left_out["ua"]
    assert {*scores.left_out} | {*found} <= {*METRICS}
    classes = {f"mia_{name}" for name in ("correctness", "confidence", "logits", "entropy")}
    assert classes | {"ua", "ra", "ta", "rua", "fid"} <= {*LEFT_OUT}


def test_the_attack_on_errors_tells_what_was_trained_on_from_what_was_not():
    remembered, unseen = score(views(0.1), attacks=True), score(views(1.0), attacks=True)
    assert remembered.mia_error > 0.8
    assert unseen.mia_error < 0.5


def test_an_ideal_model_gives_gaps_and_a_distance():
    model, ideal = views(0.1), views(1.0)
    scores = score(model, ideal, attacks=True).as_dict()
    assert scores["gap_forget_rmse"] == pytest.approx(rmse(model.forget) - rmse(ideal.forget))
    assert scores["gap_test_rmse"] == 0.0
    assert scores["fid_rmse"] == pytest.approx(rms_difference(model.forget, ideal.forget))
    alone = score(model, ideal.forget).as_dict()
    assert alone["gap_forget_rmse"] == scores["gap_forget_rmse"]
    assert "gap_test_rmse" not in alone


def test_evaluate_knows_a_regression_by_its_labels():
    parts = [
        TensorDataset(torch.full((6, 1), float(k)), torch.arange(6.0) + 10 * k) for k in range(3)
    ]
    for model in (torch.nn.Identity(), torch.nn.Flatten(0)):  # outputs [N, 1] and [N]
        scores = expunge.evaluate(model, forget=parts[0], retain=parts[1], test=parts[2])
        literal = math.sqrt(sum(k**2 for k in range(6)) / 6)
        assert scores.forget_rmse == pytest.approx(literal)
        assert scores.left_out == LEFT_OUT


def test_classes_leave_nothing_out():
    logits = torch.eye(4)
    part = Predictions(logits, torch.arange(4))
    assert score(Views(forget=part, retain=part, test=part)).left_out == {}
