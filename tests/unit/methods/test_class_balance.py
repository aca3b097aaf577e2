"""Offsets that balance classes: they undo a preference, and change nothing where there is none."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from expunge.methods._class_balance import accuracy_per_class, balancing_offsets

PREFERENCE = torch.tensor([0.8, -0.8, 0.0, 0.3, -0.3])


def outputs(seed: int = 0, size: int = 4000, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Logits and labels of a model that is right on most examples of each of five classes."""
    labels = torch.arange(size) % 5
    noise = torch.randn(size, 5, generator=torch.Generator().manual_seed(seed))
    return scale * (2.0 * F.one_hot(labels) + noise), labels


def spread(goal: Tensor, logits: Tensor, labels: Tensor) -> float:
    """By how many points more a class has missed its goal than classes do in the mean."""
    missed = 100.0 * (goal - accuracy_per_class(logits, labels))
    return float((missed - missed.mean()).abs().max())


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_a_preference_for_classes_is_undone_whatever_the_scale_of_the_logits(scale: float) -> None:
    fair, labels = outputs(scale=scale)
    goal = accuracy_per_class(fair, labels)
    unfair = fair + scale * PREFERENCE
    balanced = unfair + balancing_offsets(unfair, labels, goal)
    assert spread(goal, unfair, labels) > 8.0
    assert spread(goal, balanced, labels) < 1.0
    right = [float((each.argmax(dim=1) == labels).double().mean()) for each in (balanced, unfair)]
    assert right[0] > right[1] + 0.01


def test_what_was_fitted_on_one_sample_holds_on_another() -> None:
    (fitted, labels), (other, _) = outputs(1), outputs(2)
    offsets = balancing_offsets(fitted + PREFERENCE, labels, accuracy_per_class(fitted, labels))
    goal = accuracy_per_class(other, labels)
    lost = goal - accuracy_per_class(other + PREFERENCE + offsets, labels)
    assert float(lost.abs().max()) < 0.04, "chance, of 800 examples per class"


def test_a_model_at_its_goal_is_left_alone() -> None:
    fair, labels = outputs()
    offsets = balancing_offsets(fair, labels, accuracy_per_class(fair, labels))
    assert offsets.abs().max() == 0.0


def test_few_examples_move_offsets_less() -> None:
    sizes = []
    for size in (4000, 100):
        fair, labels = outputs(size=size)
        goal = accuracy_per_class(fair, labels)
        sizes.append(float(balancing_offsets(fair + PREFERENCE, labels, goal).norm()))
    assert sizes[1] < 0.8 * sizes[0]


def test_lost_classes_take_no_part() -> None:
    fair, labels = outputs()
    unfair = fair + torch.tensor([-50.0, 0.5, -0.5, 0.0, 0.0])
    goal = accuracy_per_class(fair, labels)
    offsets = balancing_offsets(unfair, labels, goal, lost=[0])
    assert offsets[0] == 0.0
    kept = labels != 0
    missed = (goal - accuracy_per_class((unfair + offsets)[kept], labels[kept]))[1:]
    assert float((missed - missed.mean()).abs().max()) < 0.01


def test_one_class_needs_no_balance() -> None:
    logits, labels = outputs()
    alone = labels == 0
    assert balancing_offsets(logits[alone], labels[alone], torch.ones(5)).abs().max() == 0.0
