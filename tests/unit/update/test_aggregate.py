"""Aggregations of all parameters at once: TorchJD and plain callables."""

from __future__ import annotations

import sys

import pytest
import torch
from torchjd.aggregation import CAGrad, Mean, PCGrad, UPGrad

from expunge._errors import InvalidInput
from expunge.update import ADDONS, Focus, Jacobian, Update, WeightedSum

AGGREGATORS = [UPGrad(), PCGrad(), CAGrad(c=0.5), Mean()]


def pair(dtype: torch.dtype = torch.float32) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    shapes = [(5, 7), (), (0,), (4, 3, 2, 2)]
    make = lambda: [torch.randn(s, generator=generator).to(dtype) for s in shapes]  # noqa: E731
    return make(), make()


def vector(tensors) -> torch.Tensor:
    return torch.cat([t.flatten() for t in tensors])


@pytest.mark.parametrize("addon", list(ADDONS))
@pytest.mark.parametrize("aggregator", AGGREGATORS, ids=lambda a: type(a).__name__)
def test_torchjd_aggregators_are_weighted_by_every_addon(aggregator, addon):
    g_u, g_c = pair()
    torch.manual_seed(0)
    update = Update(addon, aggregator)
    got = vector(update.combine(g_u, g_c))
    torch.manual_seed(0)  # PCGrad projects in random order
    whole = aggregator(torch.stack([vector(g_u), vector(g_c)]))
    weight = vector(Update(addon, Jacobian(lambda m: torch.ones(m.shape[1]))).combine(g_u, g_c))
    assert weight.any()
    torch.testing.assert_close(got, weight * whole)
    assert torch.isfinite(torch.tensor(update.diagnostics.norm))


@pytest.mark.parametrize("addon", ["none", "and", "focus"])
def test_mean_is_linear_with_two_halves(addon):
    g_u, g_c = pair()
    ours = Update(addon, WeightedSum(0.5, 0.5)).combine(g_u, g_c)
    torch.testing.assert_close(Update(addon, "torchjd:Mean").combine(g_u, g_c), ours)


def test_channels_last_parameters_keep_their_places():
    g_u, g_c = pair()
    last = lambda gs: [  # noqa: E731
        g.to(memory_format=torch.channels_last) if g.dim() == 4 else g for g in gs
    ]
    plain = Update("focus", UPGrad()).combine(g_u, g_c)
    torch.testing.assert_close(Update("focus", UPGrad()).combine(last(g_u), last(g_c)), plain)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_aggregators_see_at_least_float32(dtype):
    seen = []

    def aggregator(matrix):
        seen.append(matrix.dtype)
        return matrix.mean(dim=0)

    g_u, g_c = pair(dtype)
    steps = Update("focus", aggregator).combine(g_u, g_c)
    assert {step.dtype for step in steps} == {dtype}
    assert seen == [torch.float64 if dtype == torch.float64 else torch.float32]


def test_upgrad_by_name():
    assert isinstance(Update(aggregate="torchjd:UPGrad").aggregate.aggregator, UPGrad)
    assert isinstance(Update(aggregate="TorchJD:upgrad").aggregate.aggregator, UPGrad)


def test_an_unknown_torchjd_name_brings_a_suggestion():
    with pytest.raises(InvalidInput, match=r"Unknown TorchJD aggregator 'UPGrda'. Did you mean"):
        Update(aggregate="torchjd:UPGrda")


@pytest.mark.parametrize(
    ("name", "aggregator"),
    [
        ("torchjd:PCGrad", PCGrad()),
        ("torchjd:CAGrad", CAGrad(c=0.5)),
        ("torchjd:cagrad(c=0.2)", CAGrad(c=0.2)),
    ],
)
def test_rivals_of_torchjd_by_name(name, aggregator):
    g_u, g_c = pair()
    torch.manual_seed(0)
    named = vector(Update("focus", name).combine(g_u, g_c))
    torch.manual_seed(0)  # PCGrad projects in random order
    torch.testing.assert_close(named, vector(Update("focus", aggregator).combine(g_u, g_c)))


def test_a_torchjd_aggregator_with_arguments_says_how_to_pass_them():
    with pytest.raises(InvalidInput, match=r"aggregate=torchjd.aggregation.Krum\(...\)"):
        Update(aggregate="torchjd:Krum")


def test_torchjd_absent_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchjd", None)
    monkeypatch.setitem(sys.modules, "torchjd.aggregation", None)
    with pytest.raises(InvalidInput, match=r"need the extra: pip install 'expunge\[torchjd\]'"):
        Update(aggregate="torchjd:UPGrad")


def test_an_aggregator_of_another_shape_is_refused():
    with pytest.raises(InvalidInput, match=r"map a \(2, n\) matrix to a vector of n"):
        Update("and", lambda matrix: matrix).combine([torch.ones(3)], [torch.ones(3)])


def test_nothing_to_aggregate_is_no_error():
    assert Update(Focus(), UPGrad()).combine([], []) == []
