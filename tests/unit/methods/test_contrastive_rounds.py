"""The challenge's recipe against literal sums."""

from __future__ import annotations

import math

import pytest
import torch

from expunge import InvalidInput
from expunge.methods import ContrastiveRounds
from expunge.methods._contrastive_rounds import contrastive_loss, divergence_from_uniform
from tests.unit.methods.rival_world import batches, literal_divergence, problem


def test_the_first_epoch_is_the_divergence_from_uniform_outputs() -> None:
    world, (forget, retain) = problem(), batches()
    method = ContrastiveRounds()
    method.begin_epoch(world, 1, 5)
    with torch.no_grad():
        logits = world.model(forget.inputs)
        loss = method.objective(world, forget, retain).loss
    expected = literal_divergence(torch.zeros_like(logits), logits)
    assert float(loss) == pytest.approx(expected, rel=1e-4)
    assert float(divergence_from_uniform(logits)) == pytest.approx(expected, rel=1e-4)


def test_later_epochs_spread_the_similarities_to_retained_data() -> None:
    world, (forget, retain) = problem(), batches()
    method = ContrastiveRounds(temperature=0.7)
    method.begin_epoch(world, 2, 5)
    with torch.no_grad():
        first, second = world.model(forget.inputs).tolist(), world.model(retain.inputs).tolist()
    total = 0.0
    for z in first:
        scores = [sum(a * b for a, b in zip(z, other, strict=True)) / 0.7 for other in second]
        whole = math.log(sum(math.exp(s) for s in scores))
        total += sum(whole - s for s in scores)
    loss = method.objective(world, forget, retain).loss
    assert float(loss.detach()) == pytest.approx(total / (len(first) * len(second)), rel=1e-4)


def test_retained_outputs_are_constants_there() -> None:
    z, other = (torch.randn(3, 4, requires_grad=True) for _ in range(2))
    contrastive_loss(z, other.detach(), 1.0).backward()
    assert z.grad is not None
    world, (forget, retain) = problem(), batches()
    method = ContrastiveRounds(flatten=0)
    method.begin_epoch(world, 1, 1)
    world.model.zero_grad()
    method.objective(world, forget, retain).loss.backward()
    gradient = world.model.head.weight.grad.clone()
    with torch.no_grad():
        others = world.model(retain.inputs)
    world.model.zero_grad()
    contrastive_loss(world.model(forget.inputs), others, 1.15).backward()
    torch.testing.assert_close(world.model.head.weight.grad, gradient)


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(InvalidInput, match="`temperature` should be positive"):
        ContrastiveRounds(temperature=0.0)
    with pytest.raises(InvalidInput, match="`flatten` should be a whole number, at least 0"):
        ContrastiveRounds(flatten=-1)
