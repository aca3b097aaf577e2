"""UNSIR: the noise, and the epochs that it is there for."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torch.utils.data import TensorDataset

from expunge import InvalidInput
from expunge.methods import ImpairRepair
from expunge.methods._impair_repair import maximise_loss
from tests import tiny
from tests.tiny import TinyConv
from tests.unit.methods.rival_world import batches, problem


def test_the_noise_is_what_steps_of_adam_make_of_it() -> None:
    model = TinyConv().eval()
    generator = torch.Generator().manual_seed(0)
    start, labels = torch.randn(4, 1, 5, 5, generator=generator), torch.tensor([0, 1, 2, 0])
    found = maximise_loss(model, start, labels, steps=3, lr=0.1, decay=0.2)
    noise = start.clone().requires_grad_()
    first, second = torch.zeros_like(noise), torch.zeros_like(noise)
    for t in (1, 2, 3):
        sizes = sum((row * row).sum() for row in noise) / len(noise)
        loss = -F.cross_entropy(model(noise), labels) + 0.2 * sizes
        (gradient,) = torch.autograd.grad(loss, noise)
        first = 0.9 * first + 0.1 * gradient
        second = 0.999 * second + 0.001 * gradient * gradient
        scaled = (first / (1 - 0.9**t)) / ((second / (1 - 0.999**t)).sqrt() + 1e-8)
        noise = (noise - 0.1 * scaled).detach().requires_grad_()
    torch.testing.assert_close(found, noise.detach(), rtol=1e-4, atol=1e-5)
    harder = maximise_loss(model, start, labels, steps=20, lr=0.1, decay=0.0)
    with torch.no_grad():
        assert F.cross_entropy(model(harder), labels) > F.cross_entropy(model(start), labels)


def test_the_first_epochs_see_noise_of_their_classes_and_the_others_retained_data() -> None:
    world, (forget, retain) = problem(), batches()
    method = ImpairRepair(impair=2, copies=3, steps=2)
    method.prepare(world)
    noise, classes = world.memory["noise"], world.memory["classes"].tolist()
    assert noise.shape == (3 * len(classes), 1, 5, 5)
    seen = []
    world.model.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    for epoch, from_noise in ((1, True), (2, True), (3, False)):
        seen.clear()
        method.begin_epoch(world, epoch, 5)
        loss = method.objective(world, forget, retain).loss
        if not from_noise:
            assert torch.equal(seen[0], retain.inputs)
            torch.testing.assert_close(loss, method.constraint(world, forget, retain))
            continue
        for row, label in zip(seen[0], forget.targets.tolist(), strict=True):
            own = noise[3 * classes.index(label) : 3 * classes.index(label) + 3]
            assert any(torch.equal(row, candidate) for candidate in own)


def test_it_needs_inputs_that_can_be_noise() -> None:
    words, others = (
        TensorDataset(torch.full((4, 4), token), torch.arange(4) % 3) for token in (0, 1)
    )
    embedding = torch.nn.Embedding(3, 2)
    with pytest.raises(InvalidInput, match="inputs that can change a little"):
        tiny.unlearn(
            torch.nn.Sequential(embedding, torch.nn.Flatten(), torch.nn.Linear(8, 3)),
            forget=words,
            retain=others,
            method="UNSIR",
            progress=False,
        )
    with pytest.raises(InvalidInput, match="`copies` should be a whole number, at least 1"):
        ImpairRepair(copies=0)
