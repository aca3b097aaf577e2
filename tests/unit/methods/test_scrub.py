"""The divergence of SCRUB and its gradient, exact where student and teacher are equal."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

import expunge
from expunge.methods import Batch, Problem, Scrub
from expunge.methods._scrub import kl_divergence, released_divergence
from tests import tiny
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


@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_the_objective_starts_at_a_stationary_point(precision: torch.dtype) -> None:
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
    result = tiny.unlearn(
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


def test_the_released_loss_is_torchs_divergence_of_probabilities_with_its_arguments_exchanged() -> (
    None
):
    initial = logits(0, dtype=torch.float64)
    ours, theirs = (logits(1, dtype=torch.float64).requires_grad_() for _ in range(2))
    released_divergence(initial, ours).backward()
    literal = torch.nn.KLDivLoss(reduction="batchmean")
    literal(F.softmax(initial, dim=1), F.softmax(theirs, dim=1)).backward()
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=1e-15)


def test_the_released_loss_follows_the_negative_entropy_and_not_the_divergence() -> None:
    initial = logits(0, (500, 10)) / 2

    def gradient(loss: object) -> Tensor:
        current = (initial + logits(1, (500, 10)) / 10).requires_grad_()
        loss(current).backward()
        return current.grad.flatten()

    def negative_entropy(current: Tensor) -> Tensor:
        log_p = F.log_softmax(current, dim=1)
        return (log_p.exp() * log_p).sum(dim=1).mean()

    released = gradient(lambda current: released_divergence(initial, current))
    true = gradient(lambda current: kl_divergence(initial, current))
    assert F.cosine_similarity(released, gradient(negative_entropy), dim=0) > 0.9
    assert F.cosine_similarity(released, true, dim=0).abs() < 0.3


def test_the_released_scrub_shows_retain_batches_twice_to_batchnorm() -> None:
    x, y = images(12).tensors
    batch = Batch(x, y, "retain")
    for method, passes in ((Scrub(), 1), (Scrub(loss="released"), 2)):
        problem = Problem(TinyConv().train())
        method.constraint(problem, batch, batch)
        assert int(problem.model.bn1.num_batches_tracked) == passes


def test_a_loss_that_is_neither_is_refused() -> None:
    with pytest.raises(expunge.InvalidInput, match="`loss` should be one of divergence, released"):
        Scrub(loss="true")
