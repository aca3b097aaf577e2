"""Quantiles are those of torch, also of parts that lie apart."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from expunge.update._quantiles import absolute_quantile, absolute_quantiles, count, tally

KINDS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
ALIKE = {"rtol": 0, "atol": 0, "equal_nan": True}


def apart(tensors: list[list[torch.Tensor]], *rule: object) -> list[torch.Tensor]:
    """Run one process after the other, in step: each round waits for the counts of all."""
    processes = len(tensors)
    totals: list[torch.Tensor] = []
    while True:  # replay: with n rounds known, all processes get to round n + 1
        waiting: list[torch.Tensor] = []
        results = []
        for own in tensors:
            rounds = iter(totals)

            def total(counts: torch.Tensor, rounds=rounds, waiting=waiting) -> None:
                done = next(rounds, None)
                if done is None:
                    waiting.append(counts.clone())
                    raise StopIteration
                counts.copy_(done)

            try:
                results.append(absolute_quantiles(own, total, *rule, chunk=64))
            except StopIteration:
                continue
        if len(results) == processes:
            for other in results[1:]:
                torch.testing.assert_close(other, results[0], **ALIKE)
            return results[0]
        totals.append(torch.stack(waiting).sum(dim=0))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("size", [1, 2, 3, 10, 257, 1000])
def test_it_is_torch_median_of_the_whole(dtype, size):
    generator = torch.Generator().manual_seed(size)
    x = torch.randn(size, generator=generator).to(dtype)
    ties = torch.randint(-2, 3, (size,), generator=generator).to(dtype)
    tiny = (torch.randn(size, generator=generator) * 1e-6).to(dtype)
    with_nan, with_inf = x.clone(), x.clone()
    with_nan[size // 2] = float("nan")
    with_inf[: (size + 1) // 2] = float("inf")
    wholes = [x, ties, tiny, with_nan, with_inf, torch.zeros(size, dtype=dtype)]
    cut = size // 3
    medians = apart([[w[:cut] for w in wholes], [w[cut:] for w in wholes]])
    for median, whole in zip(medians, wholes, strict=True):
        torch.testing.assert_close(median, whole.abs().median(), **ALIKE)


@given(st.lists(st.floats(width=32), min_size=1, max_size=30), st.integers(0, 30))
def test_of_any_numbers_cut_anywhere(values, cut):
    whole = torch.tensor(values)
    [median] = apart([[whole[:cut]], [whole[cut:]]])
    torch.testing.assert_close(median, whole.abs().median(), **ALIKE)


def test_types_may_be_mixed():
    one, other = torch.randn(9), torch.randn(8, dtype=torch.float64)
    medians = apart([[one[:4], other], [one[4:], other[:0]]])
    assert torch.equal(medians[0], one.abs().median())
    assert torch.equal(medians[1], other.abs().median())


def test_what_is_empty_everywhere_has_no_say():
    [median] = apart([[torch.zeros(0)], [torch.zeros(0)]])
    assert median == 0


def test_counting_for_accelerators_is_counting():
    digits = torch.randint(0, 257, (1000,), dtype=torch.int32)
    assert torch.equal(count(digits, 257), tally(digits, 257))


@pytest.mark.parametrize("interpolation", ["lower", "midpoint", "linear"])
@pytest.mark.parametrize("quantile", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_other_quantiles_are_those_of_torch(size, quantile, interpolation):
    x = torch.randn(size, generator=torch.Generator().manual_seed(size))
    want = torch.quantile(x.double().abs(), quantile, interpolation=interpolation)
    cut = size // 3
    [parted] = apart([[x[:cut]], [x[cut:]]], quantile, interpolation)
    for got in (absolute_quantile(x, quantile, interpolation), parted):
        torch.testing.assert_close(got.double(), want, rtol=1e-6, atol=0)
