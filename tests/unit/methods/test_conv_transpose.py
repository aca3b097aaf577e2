"""CT: square kernels are transposed before the first step."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.methods import ConvTranspose, Problem
from tests.tiny import TinyConv, bits


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_ct_transposes_every_square_kernel_and_nothing_else(layout: torch.memory_format) -> None:
    model = TinyConv().to(memory_format=layout)
    before = bits(model)
    ConvTranspose().prepare(Problem(model))
    for name, value in bits(model).items():
        kernel = name in ("conv1.weight", "conv2.weight")
        expected = before[name].transpose(2, 3) if kernel else before[name]
        assert torch.equal(value, expected), name
    assert not torch.equal(model.conv1.weight, before["conv1.weight"])


def test_ct_leaves_frozen_and_oblong_kernels() -> None:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.Conv2d(2, 2, (1, 3)), nn.Conv2d(2, 2, 3))
    model[2].weight.requires_grad_(False)
    before = bits(model)
    ConvTranspose().prepare(Problem(model))
    assert torch.equal(model[0].weight, before["0.weight"].transpose(2, 3))
    assert torch.equal(model[1].weight, before["1.weight"])
    assert torch.equal(model[2].weight, before["2.weight"])


def test_ct_refuses_a_model_without_kernels_to_transpose() -> None:
    with pytest.raises(InvalidInput, match="square convolution kernels"):
        ConvTranspose().prepare(Problem(nn.Sequential(nn.Conv2d(1, 1, 1), nn.Linear(2, 2))))
