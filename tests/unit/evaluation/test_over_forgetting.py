"""Over-forgetting is found where it was planted, and only there."""

from __future__ import annotations

import numpy as np
import torch

from expunge.evaluation import Predictions, Views, over_forgetting, run_attack
from expunge.evaluation._over_forgetting import entropy_shift, relative_accuracy
from tests.unit.evaluation.worlds import world

OPTIONS = {"level": 0.95, "resamples": 300, "seed": 0}


def kinds(views: Views, ideal: Predictions | None = None) -> set[str]:
    reports = [run_attack("loss", views, resamples=200)]
    return {f.kind for f in over_forgetting(views, ideal=ideal, reports=reports)}


def test_a_model_like_the_ideal_one_gives_nothing_away() -> None:
    views = world(forget=1.0)
    ideal = views.forget._replace(logits=views.forget.logits + 0.01)
    assert kinds(views, ideal) == set()


def test_data_pushed_away_are_flagged_by_attack_and_accuracy() -> None:
    views = world(forget=-2.0)
    better = views.forget.logits + 4.0 * torch.nn.functional.one_hot(views.forget.labels, 5)
    found = kinds(views, Predictions(better, views.forget.labels))
    assert {"attack below chance", "rUA negative"} <= found


def test_flattened_predictions_are_flagged_by_their_entropy() -> None:
    views = world(forget=1.0, unseen=3.0)
    flat = Views(Predictions(views.forget.logits * 0.1, views.forget.labels), views.test)
    sure = Views(Predictions(views.forget.logits * 9.0, views.forget.labels), views.test)
    assert "entropy too high" in kinds(flat)
    assert "entropy too low" in kinds(sure)


def test_findings_read_as_sentences() -> None:
    views = world(forget=-2.0)
    report = run_attack("loss", views, resamples=100)
    for finding in over_forgetting(views, reports=[report]):
        assert str(finding).endswith(".")


def test_rua_intervals_cover_the_truth() -> None:
    covered = []
    for seed in range(200):
        random = np.random.default_rng(seed)
        labels = torch.zeros(150, dtype=torch.int64)
        model, ideal = (
            Predictions(torch.eye(2)[torch.tensor(random.random(150) < wrong).long()], labels)
            for wrong in (0.3, 0.1)
        )
        gap = relative_accuracy(model, ideal, **(OPTIONS | {"seed": seed}))  # type: ignore[arg-type]
        covered.append(gap.low <= -20.0 <= gap.high)
    assert 0.90 <= np.mean(covered) <= 0.99


def test_one_example_settles_nothing() -> None:
    one = Predictions(torch.tensor([[1.0, 0.0]]), torch.tensor([1]))
    right = Predictions(torch.tensor([[0.0, 1.0]]), torch.tensor([1]))
    assert relative_accuracy(one, right, **OPTIONS) == (-100.0, -100.0, 100.0)  # type: ignore[arg-type]
    assert entropy_shift(Views(one, right), **OPTIONS) == (0.5, 0.0, 1.0)  # type: ignore[arg-type]
    assert over_forgetting(Views(one, right), ideal=right) == []
