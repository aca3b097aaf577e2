"""Forget against val: literal statistics, the joint test's level, and the verdict."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from expunge._errors import InvalidInput
from expunge.evaluation import Predictions
from expunge.request.calibrate._comparison import Behaviour, compare
from expunge.request.calibrate._permutation_test import (
    Division,
    auc_and_ks,
    exchange,
    mean_difference,
)
from expunge.request.calibrate._target import estimate_target


def literal(scores: np.ndarray, division: Division) -> tuple[float, float, float]:
    """Mean difference, AUC and KS, pair by pair and threshold by threshold."""
    inside = [i for i in range(len(scores)) if division.forget[i]]
    outside = [j for j in range(len(scores)) if not division.forget[j]]
    labels = division.labels

    def weight(j: int) -> float:
        share = sum(labels[i] == labels[j] for i in inside) / len(inside)
        return share / sum(labels[k] == labels[j] for k in outside)

    area = sum(
        weight(j) / len(inside) * ((scores[i] > scores[j]) + 0.5 * (scores[i] == scores[j]))
        for i in inside
        for j in outside
    )
    mean = sum(scores[i] for i in inside) / len(inside) - sum(
        weight(j) * scores[j] for j in outside
    )
    distance = max(
        abs(
            sum(scores[i] <= u for i in inside) / len(inside)
            - sum(weight(j) for j in outside if scores[j] <= u)
        )
        for u in scores
    )
    return mean, float(area), distance


@pytest.mark.parametrize("tied", [False, True])
def test_statistics_match_the_definitions(tied: bool) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 40)
    division = Division(labels, random.random(40) < 0.4)
    scores = random.integers(0, 5, 40).astype(float) if tied else random.normal(size=40)
    rows = np.concatenate([division.forget[None], division.shuffles(3, seed=1)])
    weights = division.weights
    means, (areas, distances) = (
        mean_difference(scores)(rows, weights),
        auc_and_ks(scores)(rows, weights),
    )
    for k, row in enumerate(rows):
        expected = literal(scores, Division(labels, row))
        assert (means[0, k], areas[k], distances[k]) == pytest.approx(expected, abs=1e-12)


def test_shuffles_keep_the_number_of_each_class() -> None:
    labels = np.array([0, 0, 0, 1, 1, 1, 1])
    forget = np.array([True, False, False, True, True, False, False])
    for row in Division(labels, forget).shuffles(50, seed=0):
        assert row[labels == 0].sum() == 1
        assert row[labels == 1].sum() == 2


def test_joint_test_passes_exchangeable_data_as_often_as_its_level() -> None:
    random = np.random.default_rng(3)
    passed = []
    for trial in range(200):
        labels = np.repeat([0, 1], 30)
        division = Division(labels, np.tile(np.arange(30) < 10, 2))
        first, second = random.normal(size=60) + labels, random.normal(size=60)
        statistics = {
            ("mean",): mean_difference(first),
            ("auc_a", "ks_a"): auc_and_ks(first),
            ("auc_b", "ks_b"): auc_and_ks(second),
        }
        centres = {"mean": 0.0, "auc_a": 0.5, "auc_b": 0.5}
        _, largest = exchange(division, statistics, centres, level=0.8, shuffles=99, seed=trial)
        passed.append(largest <= 1.0)
    assert 0.72 <= np.mean(passed) <= 0.88


def world(seed: int, memory: float, size: int = 60) -> tuple[Predictions, Predictions]:
    """Logits of a model that is right on most, and surer by ``memory`` of the forget set."""
    random = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (size + 200,), generator=random)
    logits = 1.3 * torch.randn(len(y), 3, generator=random)
    boost = torch.where(torch.arange(len(y)) < size, 2.5 + memory, 2.5)
    logits[torch.arange(len(y)), y] += boost
    both = Predictions(logits, y)
    return both.take(range(size)), both.take(range(size, len(y)))


def seen(seed: int, memory: float, **options: float) -> Behaviour:
    forget, val = world(seed, memory)
    target = estimate_target(world(seed + 1000, 0.0)[1], forget.labels)
    return compare(forget, val, target, shuffles=150, seed=seed, **options)


def test_a_model_that_saw_neither_passes_about_as_often_as_the_level() -> None:
    passed = [seen(seed, memory=0.0).indistinguishable for seed in range(60)]
    assert np.mean(passed) >= 0.85


def test_a_model_that_remembers_never_passes() -> None:
    found = [seen(seed, memory=4.0) for seed in range(20)]
    assert not any(one.indistinguishable for one in found)
    assert all(one.attacks["loss"].low > 0.5 for one in found)
    assert all(one.distance > 1.0 and one.reasons for one in found)


def test_a_model_that_avoids_the_forget_set_is_over_forgotten() -> None:
    found = seen(0, memory=-4.0)
    assert found.over_forgotten
    assert not found.indistinguishable
    assert found.attacks["loss"].high < 0.5
    assert any("below" in reason for reason in found.reasons)


def test_confidence_and_loss_rank_alike() -> None:
    found = seen(0, memory=1.0)
    assert found.attacks["confidence"] == found.attacks["loss"]


def test_utility_leaves_lost_classes_out() -> None:
    forget, val = world(0, 0.0)
    forget = forget.take((forget.labels == 1).nonzero()[:, 0])
    target = estimate_target(val, forget.labels, torch.tensor([0, 2]))
    rest = val.take((val.labels != 1).nonzero()[:, 0])
    right = 100 * float((rest.classes == rest.labels).double().mean())
    assert compare(forget, val, target, shuffles=20).utility == pytest.approx(right)


def test_without_val_of_the_class_only_the_accuracy_is_compared() -> None:
    forget, val = world(0, 0.0)
    forget = forget.take((forget.labels == 1).nonzero()[:, 0])
    val = val.take((val.labels != 1).nonzero()[:, 0])
    found = compare(forget, val, estimate_target(val, forget.labels), shuffles=20)
    assert np.isnan(found.attacks["loss"].value)
    assert any("no example" in reason for reason in found.reasons)


def test_classes_should_be_the_same() -> None:
    forget, val = world(0, 0.0)
    target = estimate_target(val, forget.labels)
    with pytest.raises(InvalidInput, match="same classes"):
        compare(Predictions(forget.logits[:, :3].repeat(1, 2), forget.labels), val, target)
