"""The quantile that saliency ranks by is that of torch."""

from __future__ import annotations

import pytest
import torch

from expunge.update._addons import absolute_quantile

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
