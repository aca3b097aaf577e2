"""Forget against val: who passes, and what the reasons say."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from expunge._errors import InvalidInput
from expunge.evaluation import Estimate, Predictions
from expunge.request.calibrate._comparison import Comparison, compare, compare_with_test
from expunge.request.calibrate._target import estimate_target


def world(seed: int, memory: float, size: int = 60) -> tuple[Predictions, Predictions]:
    """Logits of a model that is right on most, and surer by ``memory`` of the forget set."""
    random = torch.Generator().manual_seed(seed)
    y = torch.randint(3, (size + 200,), generator=random)
    logits = 1.3 * torch.randn(len(y), 3, generator=random)
    boost = torch.where(torch.arange(len(y)) < size, 2.5 + memory, 2.5)
    logits[torch.arange(len(y)), y] += boost
    both = Predictions(logits, y)
    return both.take(range(size)), both.take(range(size, len(y)))


def compared(seed: int, memory: float, **options: float) -> Comparison:
    forget, val = world(seed, memory)
    target = estimate_target(world(seed + 1000, 0.0)[1], forget.labels)
    return compare(forget, val, target, shuffles=150, seed=seed, **options)


def test_a_model_that_saw_neither_passes_about_as_often_as_the_level() -> None:
    passed = [compared(seed, memory=0.0).indistinguishable for seed in range(60)]
    assert np.mean(passed) >= 0.85


def test_a_model_that_remembers_never_passes() -> None:
    comparisons = [compared(seed, memory=4.0) for seed in range(20)]
    assert not any(one.indistinguishable for one in comparisons)
    assert all(one.attacks["loss"].low > 0.5 for one in comparisons)
    assert all(one.distance > 1.0 and one.reasons for one in comparisons)


def test_a_model_that_avoids_the_forget_set_is_over_forgotten() -> None:
    comparison = compared(0, memory=-4.0)
    assert comparison.over_forgotten
    assert not comparison.indistinguishable
    assert comparison.attacks["loss"].high < 0.5
    assert any("below" in reason for reason in comparison.reasons)


def test_confidence_and_loss_rank_alike() -> None:
    comparison = compared(0, memory=1.0)
    assert comparison.attacks["confidence"] == comparison.attacks["loss"]


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
    comparison = compare(forget, val, estimate_target(val, forget.labels), shuffles=20)
    assert np.isnan(comparison.attacks["loss"].value)
    assert any("no example" in reason for reason in comparison.reasons)


@pytest.mark.parametrize(
    ("interval", "passes"),
    [
        ((90.0, 95.0), False),
        ((75.0, 90.0), False),
        ((89.0, 91.0), True),
        ((90.0, 90.0), True),
        ((0.0, 90.0), False),
    ],
)
def test_accuracy_on_the_edge_of_the_interval_is_no_pass(
    interval: tuple[float, float], passes: bool
) -> None:
    labels = torch.arange(40) % 2
    answers = torch.where(torch.arange(40) % 10 == 3, 1 - labels, labels)
    half = Predictions(torch.eye(2)[answers], labels)
    estimated = estimate_target(half, half.labels)
    target = replace(estimated, accuracy=Estimate(sum(interval) / 2, *interval))
    comparison = compare(half, half, target, shuffles=20)
    assert comparison.ua == pytest.approx(90.0)
    assert comparison.indistinguishable == passes
    assert any("on the edge of" in reason for reason in comparison.reasons) == (not passes)


@pytest.mark.parametrize(("share", "interval"), [(1.0, (70.0, 100.0)), (0.0, (0.0, 20.0))])
def test_nothing_lies_beyond_0_and_100_percent(share: float, interval: tuple[float, float]) -> None:
    labels = torch.arange(40) % 2
    same = Predictions(torch.eye(2)[labels if share else 1 - labels], labels)
    target = replace(estimate_target(same, labels), accuracy=Estimate(interval[0], *interval))
    assert compare(same, same, target, shuffles=20).indistinguishable


def test_classes_should_be_the_same() -> None:
    forget, val = world(0, 0.0)
    target = estimate_target(val, forget.labels)
    with pytest.raises(InvalidInput, match="same classes"):
        compare(Predictions(forget.logits[:, :3].repeat(1, 2), forget.labels), val, target)


def surer(predictions: Predictions, by: float) -> Predictions:
    """The same data, of which the model is surer."""
    logits = predictions.logits.clone()
    logits[torch.arange(len(logits)), predictions.labels] += by
    return Predictions(logits, predictions.labels)


def test_what_val_and_test_differ_by_is_no_memory() -> None:
    """Test data of another kind: easier for a model that saw none of the three."""
    told, allowed = [], []
    for seed in range(12):
        (forget, val), (_, other) = world(seed, 0.0, size=150), world(seed + 500, 0.0)
        test = surer(other, 1.5)
        target = estimate_target(val, forget.labels)
        told.append(compare(forget, test, target, val_name="test"))
        allowed.append(compare_with_test(forget, val, test, target))
    assert sum(one.indistinguishable for one in told) <= 3
    assert sum(one.indistinguishable for one in allowed) >= 9
    assert all(one.shift["auc_loss"].value < 0.5 for one in allowed)


def test_memory_is_seen_beside_a_shift() -> None:
    (forget, val), (_, other) = world(0, 4.0, size=150), world(500, 0.0)
    target = estimate_target(val, forget.labels)
    comparison = compare_with_test(forget, val, surer(other, 1.5), target)
    assert not comparison.indistinguishable
    assert comparison.attacks["loss"].low > 0.5


def test_where_val_and_test_are_alike_nothing_is_allowed() -> None:
    (forget, val), (_, test) = world(1, 0.0), world(501, 0.0)
    target = estimate_target(val, forget.labels)
    plain = compare(forget, test, target, val_name="test")
    comparison = compare_with_test(forget, val, test, target)
    assert comparison.shift == {}
    assert comparison == plain
