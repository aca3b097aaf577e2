"""MSG: the weights with the smallest gradients are noised before the first step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge.methods import Batch, MaskSmallGradients, Problem
from tests.tiny import TinyConv, bits, images


def pairs() -> Iterator[tuple[Batch, Batch]]:
    for seed in (1, 2):
        x, y = images(6, seed).tensors
        u, v = images(6, seed + 10).tensors
        yield Batch(x, y, "forget"), Batch(u, v, "retain")


def gradient(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    model.zero_grad()
    F.cross_entropy(model(batch.inputs), batch.targets).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def nowhere_zero() -> TinyConv:
    """Zeros stay zeros under multiplicative noise, so there are none."""
    model = TinyConv()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.where(p == 0, 0.1, 0.0))
    return model


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("share", [0.3, 0.5])
def test_msg_renoises_the_share_of_each_tensor_with_the_smallest_scores(
    share: float, layout: torch.memory_format
) -> None:
    model = nowhere_zero().to(memory_format=layout)
    before = bits(model)
    oracle = nowhere_zero().eval()
    scores = {name: torch.zeros_like(p) for name, p in oracle.named_parameters()}
    for forget, retain in pairs():
        g_u, g_c = gradient(oracle, forget), gradient(oracle, retain)
        for name in scores:
            scores[name] += torch.minimum(g_u[name].abs(), g_c[name].abs())

    MaskSmallGradients(share).prepare(Problem(model.train(), pairs=pairs))

    assert model.training
    for name, p in model.named_parameters():
        changed = (p != before[name]).flatten()
        assert int(changed.sum()) == round(share * p.numel()), name
        ranked = scores[name].flatten()
        if changed.any():
            assert ranked[changed].max() <= ranked[~changed].min() + 1e-6, name
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, before[name]), f"the scoring pass moved {name}"


def test_msg_noise_is_standard_normal_times_the_weight() -> None:
    model = nn.Linear(100, 100, bias=False)
    nn.init.constant_(model.weight, 2.0)

    def blank() -> Iterator[tuple[Batch, Batch]]:
        batch = torch.zeros(2, 100), torch.tensor([0, 1])
        yield Batch(*batch, "forget"), Batch(*batch, "retain")

    MaskSmallGradients(0.9).prepare(Problem(model, pairs=blank))
    factors = model.weight.detach()[model.weight != 2.0] / 2.0
    assert len(factors) == 9000
    assert abs(float(factors.mean())) < 0.05
    assert float(factors.std()) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("share", [0.0, 1.0, -0.1, float("nan")])
def test_msg_refuses_a_share_outside_the_open_interval(share: float) -> None:
    with pytest.raises(InvalidInput, match=r"`share` should be in \(0, 1\)"):
        MaskSmallGradients(share)


def test_msg_needs_data() -> None:
    with pytest.raises(InvalidInput, match="run it by `unlearn`"):
        MaskSmallGradients().prepare(Problem(TinyConv()))
