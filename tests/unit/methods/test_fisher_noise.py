"""Fisher forgetting: the information it estimates, and the noise it adds."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from expunge import Batch, InvalidInput, Problem
from expunge.methods import FisherNoise
from expunge.methods._fisher_noise import labels_of_the_model
from tests.tiny import Counting, bits, points
from tests.unit.methods.rival_world import problem


def test_labels_are_drawn_from_the_output() -> None:
    model = Counting()
    x, y = points(1).tensors
    many = Batch(x.expand(4000, -1), y.expand(4000), "retain")
    drawn = labels_of_the_model(Problem(model), many)
    shares = torch.bincount(drawn, minlength=3) / 4000
    torch.testing.assert_close(shares, model(x)[0].softmax(0).detach(), atol=0.03, rtol=0)


def test_the_noise_has_the_fourth_root_of_the_information_of_retained_data() -> None:
    """Over many repetitions, against the exact expectation over labels, example by example."""
    model = Counting()
    x, y = points(40, seed=2).tensors
    retain = Batch(x, y, "retain")
    exact = torch.zeros_like(model.head.weight)
    for row in x:
        for label, chance in enumerate(model(row[None])[0].softmax(0).tolist()):
            loss = F.cross_entropy(model(row[None]), torch.tensor([label]))
            (gradient,) = torch.autograd.grad(loss, model.head.weight)
            exact += chance * gradient.square() / len(x)
    changes = []
    for seed in range(150):
        world = Problem(
            Counting().eval(),
            pairs=lambda: iter([(retain, retain)] * 4),
            generator=torch.Generator().manual_seed(seed),
        )
        before = bits(world.model)["head.weight"]
        FisherNoise(scale=0.01).prepare(world)
        changes.append(bits(world.model)["head.weight"] - before)
    spread = torch.stack(changes).std(dim=0)
    torch.testing.assert_close(spread, 0.01 * exact**-0.25, rtol=0.3, atol=0)


def test_a_weight_that_retained_data_do_not_use_gets_finite_noise() -> None:
    world = problem()
    with torch.no_grad():
        world.model.head.weight.zero_()  # no gradient reaches what comes before
    FisherNoise(scale=1e-3).prepare(world)
    assert all(p.isfinite().all() for p in world.parameters)
    assert 0.05 < world.model.conv1.weight.std() < 1.0


def test_it_needs_classes_and_a_positive_scale() -> None:
    with pytest.raises(InvalidInput, match=r"`scale` should be positive and finite. \(got 0.0\)"):
        FisherNoise(scale=0.0)
    x = torch.randn(3, 4)
    with pytest.raises(InvalidInput, match="one class number per example"):
        labels_of_the_model(Problem(Counting()), Batch(x, torch.ones(3, 3) / 3, "retain"))
