"""The divergence of SCRUB and its gradient, exact where student and teacher are equal."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import expunge
from expunge.methods import Batch, Problem, Scrub
from expunge.methods._scrub import kl_divergence
from tests.tiny import Counting, TinyConv, bits, images, points, same


def logits(
    seed: int, shape: tuple[int, ...] = (6, 5), dtype: torch.dtype = torch.float32
) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype) * 3


def automatic(initial: Tensor, current: Tensor) -> Tensor:
    """The same divergence, differentiated by torch."""
    student, teacher = F.log_softmax(current, dim=-1), F.log_softmax(initial, dim=-1)
    return F.kl_div(student, teacher, reduction="batchmean", log_target=True)


@pytest.mark.parametrize("shape", [(6, 5), (1, 2), (4, 3, 2)])
def test_the_divergence_and_its_gradient_are_those_of_torch(shape: tuple[int, ...]) -> None:
    initial = logits(0, shape, torch.float64)
    ours, theirs = (logits(1, shape, torch.float64).requires_grad_() for _ in range(2))
    one, other = kl_divergence(initial, ours), automatic(initial, theirs)
    assert torch.equal(one, other)
    (2.5 * one).backward()
    (2.5 * other).backward()
    torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_gradient_is_exactly_zero_where_the_logits_are_equal(dtype: torch.dtype) -> None:
    initial = logits(0, (64, 10), dtype)
    current = initial.clone().requires_grad_()
    kl_divergence(initial, current).backward()
    assert not current.grad.any()
    other = initial.clone().requires_grad_()
    automatic(initial, other).backward()
    assert other.grad.any()  # else nothing is gained


def test_a_teacher_needs_no_gradient_and_gets_none() -> None:
    initial, current = logits(0).requires_grad_(), logits(1).requires_grad_()
    kl_divergence(initial, current).backward()
    assert initial.grad is None
    assert not kl_divergence(logits(0), logits(1)).requires_grad


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_objective_starts_at_a_stationary_point(precision: str) -> None:
    model = Counting()
    problem = Problem(model, precision=precision)
    x, y = points(30).tensors
    batch = Batch(x, y, "forget")
    Scrub().objective(problem, batch, batch).loss.backward()
    assert not model.head.weight.grad.any()
    assert not model.head.bias.grad.any()


@pytest.mark.parametrize("addon", ["and", expunge.Prob(p=0.5), expunge.Prob(p=0.6), "focus"])
@pytest.mark.parametrize("micro_batches", [1, 2])
def test_every_addon_leaves_the_stationary_point(addon: object, micro_batches: int) -> None:
    model = Counting()
    result = expunge.unlearn(
        model,
        forget=points(16, seed=1),
        retain=points(16, seed=2),
        method="scrub",
        addon=addon,
        epochs=3,
        batch_size=8,
        micro_batches=micro_batches,
        progress=False,
    )
    assert not same(bits(result.model), bits(model))


def test_with_batchnorm_the_objective_has_a_gradient_from_the_start() -> None:
    model = TinyConv().train()
    x, y = images(12).tensors
    batch = Batch(x, y, "forget")
    Scrub().objective(Problem(model), batch, batch).loss.backward()
    assert model.head.weight.grad.abs().max() > 1e-4
