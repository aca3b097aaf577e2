"""The quantile that saliency ranks by, and an ε that follows the gradients."""

from __future__ import annotations

import pytest
import torch

from expunge.update import Bernoulli, Focus, Prob, Update, WeightedSum
from expunge.update._addons import RELATIVE_EPS, absolute_quantile
from tests.reference.algorithm import PublishedRecursion, focus

KINDS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
ALIKE = {"rtol": 0, "atol": 0, "equal_nan": True}


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 10, 257, 1000])
def test_it_is_torch_median(dtype, size):
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(size, generator=generator).to(dtype)
    ties = torch.randint(-2, 3, (size,), generator=generator).to(dtype)
    with_nan, with_inf = x.clone(), x.clone()
    with_nan[size // 2] = float("nan")
    with_inf[: (size + 1) // 2] = float("inf")
    for whole in (x, ties, with_nan, with_inf, torch.zeros(size, dtype=dtype)):
        torch.testing.assert_close(absolute_quantile(whole, 0.5), whole.abs().median(), **ALIKE)


@pytest.mark.parametrize("quantile", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_other_quantiles_are_those_of_torch(size, quantile):
    x = torch.randn(size, generator=torch.Generator().manual_seed(size))
    want = torch.quantile(x.double().abs(), quantile, interpolation="lower")
    torch.testing.assert_close(absolute_quantile(x, quantile).double(), want, rtol=1e-6, atol=0)


def gradients(step: int, scale: float = 1.0) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Two gradients of three tensors, one of them empty; their entries differ in size."""
    generator = torch.Generator().manual_seed(step)
    sides = []
    for size in (1.0, 1e-2):
        shapes = ((5, 4), (0,), (7,))
        parts = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
        sides.append([scale * size * part for part in parts])
    return sides[0], sides[1]


def test_a_relative_eps_is_a_share_of_the_mean_square_of_each_gradient():
    update = Update(Focus(moments="published", eps="relative"), WeightedSum(1.0, 1.0))
    recursions = PublishedRecursion(0.9), PublishedRecursion(0.9)
    for step in range(3):
        g_u, g_c = gradients(step)
        flat = [torch.cat([g.flatten() for g in side]).tolist() for side in (g_u, g_c)]
        moments = [r.variance(g) for r, g in zip(recursions, flat, strict=True)]
        eps = [RELATIVE_EPS * sum(x * x for x in g) / len(g) for g in flat]
        # An ε per gradient is one that is added to the variances beforehand.
        shifted = [[v + e for v in moment] for moment, e in zip(moments, eps, strict=True)]
        f = focus(*flat, *shifted, 0.0)
        want = [w * (u + c) for w, u, c in zip(f, *flat, strict=True)]
        got = torch.cat([s.flatten() for s in update.combine(g_u, g_c)])
        torch.testing.assert_close(got.tolist(), want, rtol=1e-7, atol=0)


@pytest.mark.parametrize("kind", [Focus, Prob, Bernoulli])
def test_with_a_relative_eps_no_scale_of_the_losses_matters(kind):
    for eps, matters in (("relative", False), (1e-8, True)):
        updates = [Update(kind(moments="published", eps=eps), seed=1) for _ in range(2)]
        for step in range(3):
            steps = [
                torch.cat([s.flatten() / scale for s in u.combine(*gradients(step, scale))])
                for u, scale in zip(updates, (1.0, 2.0**-10), strict=True)
            ]
        assert torch.equal(*steps) is not matters


def test_gradients_of_zero_have_no_relative_eps_to_divide_by():
    zeros = [torch.zeros(3)]
    for addon in (Focus(eps="relative"), Prob(eps="relative")):
        [step] = Update(addon).combine(zeros, [torch.ones(3)])
        assert torch.isfinite(step).all()
