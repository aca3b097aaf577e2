"""Rounding is neither a sign nor a rank."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from expunge.update import Prob, Update, WeightedSum
from expunge.update._noise_floor import agree_in_sign, balance_of, largest_entry, noise_level

SIGNS = ["and", Prob(p=0.5)]
"""Add-ons that compare signs."""


def gradients(seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(500, generator=generator), torch.randn(500, generator=generator)


def step(addon: object, g_u: list[Tensor], g_c: list[Tensor]) -> list[Tensor]:
    return Update(addon, WeightedSum(1.0, 1.0)).combine(g_u, g_c)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("addon", SIGNS)
def test_an_entry_below_rounding_agrees_with_nothing(addon: object, dtype: torch.dtype) -> None:
    level = noise_level(dtype)
    u = torch.tensor([1.0, level / 2, 2 * level, 1.0, 1.0], dtype=dtype)
    c = torch.tensor([1.0, 1.0, 1.0, level / 2, 2 * level], dtype=dtype)
    [moved] = step(addon, [u], [c])
    assert (moved != 0).tolist() == [True, False, True, False, True]


@pytest.mark.parametrize("addon", SIGNS)
@pytest.mark.parametrize("factor", [1e-5, 1e5])
def test_scaling_one_loss_leaves_the_mask(addon: object, factor: float) -> None:
    u, c = gradients()
    u[:100] *= 1e-9
    plain, scaled = step(addon, [u], [c])[0], step(addon, [factor * u], [c])[0]
    assert torch.equal(plain != 0, scaled != 0)
    assert not plain[:100].any()


@pytest.mark.parametrize("addon", SIGNS)
def test_what_is_small_in_both_gradients_agrees(addon: object) -> None:
    """A layer with small gradients is not rounding: they are compared with each other."""
    u, c = gradients()
    small, large = step(addon, [1e-9 * u, u], [1e-9 * c, c])
    assert torch.equal(small != 0, large != 0)


@pytest.mark.parametrize("addon", [*SIGNS, Prob(p=0.9)])
@pytest.mark.parametrize("factor", [0.0, 1e-8, -1e-8])
def test_a_loss_at_a_stationary_point_disagrees_with_nothing(addon: object, factor: float) -> None:
    u, c = gradients()
    assert torch.equal(step(addon, [factor * u], [c])[0], factor * u + c)
    assert torch.equal(step(addon, [u], [factor * c])[0], u + factor * c)


@pytest.mark.parametrize("addon", SIGNS)
def test_a_parameter_that_one_loss_does_not_reach_stays(addon: object) -> None:
    u, c = gradients()
    assert not step(addon, [torch.zeros_like(u), u], [c, c])[0].any()


def test_the_largest_entries_are_those_of_all_parameters() -> None:
    u, c = torch.tensor([1e-9]), torch.tensor([1.0])
    other = torch.tensor([1.0])
    assert step("and", [u], [c])[0].any()  # by itself the objective is stationary
    assert not step("and", [u, other], [c, other])[0].any()


def test_a_gradient_that_is_not_finite_stays_so() -> None:
    u, c = gradients()
    u[3], u[4] = torch.nan, torch.inf
    [moved] = step("and", [u], [c])
    assert not moved[3].isfinite()
    assert not moved[4].isfinite()


def test_a_median_of_rounding_lets_all_of_a_tensor_move() -> None:
    u, c = gradients()
    noise, large = step("saliency", [1e-9 * u, u], [c, c])
    assert noise.count_nonzero() == 500
    assert large.count_nonzero() == 251
    [alone] = step("saliency", [1e-9 * u], [c])
    assert alone.count_nonzero() == 251


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_largest_entry_of_many_tensors(dtype: torch.dtype) -> None:
    tensors = [torch.tensor([1.0, -5.0], dtype=dtype), torch.empty(0, dtype=dtype)]
    assert largest_entry(tensors, torch.empty((), dtype=torch.float64)) == 5.0
    assert largest_entry([], torch.empty(())) == 0.0


def test_without_a_balance_signs_alone_decide() -> None:
    u, c = torch.tensor([1e-30, -1.0, 0.0]), torch.tensor([1.0, 1.0, 1.0])
    assert agree_in_sign(u, c, None).tolist() == [1.0, 0.0, 0.0]
    assert balance_of(torch.tensor(2.0), torch.tensor(6.0)) == 3.0
