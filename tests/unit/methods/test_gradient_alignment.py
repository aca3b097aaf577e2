"""IGA: the penalty and its gradient, by finite differences."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

import expunge
from expunge import InvalidInput, Problem
from expunge._serialisation import describe, rebuild
from expunge.methods import GradientAlignment, NegGradPlus
from tests.tiny import Counting, points
from tests.unit.methods.rival_world import batches, problem


def test_the_penalty_is_half_the_squared_difference_of_the_gradients() -> None:
    world, (forget, retain) = problem(), batches()
    plain, aligned = NegGradPlus(), GradientAlignment("NGPlus", penalty=0.7)
    gradients = []
    for term in (plain.objective(world, forget, retain), plain.constraint(world, forget, retain)):
        loss = getattr(term, "loss", term)
        gradients.append(torch.autograd.grad(loss, world.parameters))
    penalty = sum(
        float((a - b) ** 2) / 2
        for u, c in zip(*gradients, strict=True)
        for a, b in zip(u.flatten(), c.flatten(), strict=True)
    )
    base = -float(F.cross_entropy(world.model(forget.inputs), forget.targets).detach())
    found = aligned.objective(world, forget, retain)
    assert float(found.loss.detach()) == pytest.approx(base + 0.7 * penalty, rel=1e-4)
    constraint = aligned.constraint(world, forget, retain)
    expected = float(world.loss_on(retain).detach())
    assert float(constraint.detach()) == pytest.approx(expected, rel=1e-5)


def test_its_gradient_is_that_of_the_penalty() -> None:
    model = Counting().double()
    x, y = points(8, seed=1).tensors
    u, v = points(8, seed=2).tensors
    forget, retain = expunge.Batch(x.double(), y, "forget"), expunge.Batch(u.double(), v, "retain")
    method, world = GradientAlignment("NGPlus", penalty=2.0), Problem(model)

    def value() -> float:
        return float(method.objective(world, forget, retain).loss.detach())

    method.objective(world, forget, retain).loss.backward()
    weight, gradient = model.head.weight, model.head.weight.grad.clone()
    for place in ((0, 0), (2, 3)):
        with torch.no_grad():
            weight[place] += 1e-5
            above = value_without_grad(value)
            weight[place] -= 2e-5
            below = value_without_grad(value)
            weight[place] += 1e-5
        assert (above - below) / 2e-5 == pytest.approx(float(gradient[place]), rel=1e-5)


def value_without_grad(value) -> float:
    with torch.enable_grad():  # the penalty itself needs gradients
        return value()


def test_what_cannot_be_aligned_is_refused() -> None:
    for base in ("FT", "MATCH"):
        with pytest.raises(InvalidInput, match="a method with a constraint that needs no unseen"):
            GradientAlignment(base)
    with pytest.raises(InvalidInput, match="`penalty` should be finite and not negative"):
        GradientAlignment(penalty=-1.0)
    with pytest.raises(InvalidInput, match="The losses of SCRUB cannot be differentiated twice"):
        GradientAlignment("SCRUB")


def test_it_can_be_written_down() -> None:
    part = GradientAlignment("NGPlus", penalty=0.5)
    assert rebuild(describe(part)) == part == GradientAlignment(NegGradPlus(), penalty=0.5)
