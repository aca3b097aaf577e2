"""A synchronised BatchNorm is BatchNorm on the batch of all processes."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from expunge.distributed import Group, as_group
from expunge.distributed._batchnorm import synchronised
from tests.team import Team
from tests.tiny import TinyConv

LAYERS: dict[str, tuple[type[nn.Module], dict[str, Any], tuple[int, ...]]] = {
    "1d": (nn.BatchNorm1d, {}, (7, 3)),
    "1d of sequences": (nn.BatchNorm1d, {"momentum": None}, (7, 3, 5)),
    "2d": (nn.BatchNorm2d, {}, (7, 3, 4, 4)),
    "3d": (nn.BatchNorm3d, {"affine": False}, (7, 3, 2, 2, 2)),
    "no statistics": (nn.BatchNorm2d, {"track_running_stats": False}, (7, 3, 4, 4)),
    "a single example here": (nn.BatchNorm1d, {"momentum": 0.3}, (3, 3)),
}


def pass_through(name: str, group: Group) -> dict[str, Any]:
    """Two passes in train mode, one in eval; outputs and all gradients summed over processes."""
    kind, options, shape = LAYERS[name]
    generator = torch.Generator().manual_seed(0)
    layer = kind(shape[1], **options)
    for p in layer.parameters():
        p.data.copy_(torch.randn(p.shape, generator=generator))
    results: dict[str, Any] = {}
    with synchronised(layer, group):
        for k in range(2):
            whole = 3 + 2 * torch.randn(shape, generator=generator)
            head = torch.randn(shape, generator=generator)
            x = whole.tensor_split(group.size)[group.rank].clone().requires_grad_()
            y = layer(x)
            (y * head.tensor_split(group.size)[group.rank]).sum().backward()
            assert x.grad is not None
            results[f"output {k}"], results[f"gradient {k}"] = y.tolist(), x.grad.tolist()
        results["eval"] = layer.eval()(whole).tolist()
    for key, p in layer.named_parameters():
        assert p.grad is not None
        results[key] = group.sum(p.grad.clone()).tolist()
    results |= {key: b.tolist() for key, b in layer.named_buffers()}
    assert type(layer) is kind
    return results


def in_group(name: str) -> dict[str, Any]:
    return pass_through(name, as_group("auto"))


@pytest.mark.parametrize("name", LAYERS)
def test_equals_batchnorm_on_the_whole_batch(pair: Team, name: str) -> None:
    alone = pass_through(name, Group())
    first, second = pair(in_group, name)
    for key, value in alone.items():
        results = first[key]
        if key.startswith(("output", "gradient")):
            results = first[key] + second[key]
        torch.testing.assert_close(torch.tensor(results), torch.tensor(value), rtol=1e-4, atol=1e-5)


class Own(nn.BatchNorm1d):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) + 1


def classes() -> dict[str, bool]:
    model = nn.Sequential(TinyConv(), Own(3))
    kinds, names = [type(m) for m in model.modules()], list(model.state_dict())
    results = {}
    with synchronised(model, as_group("auto")):
        pairs = list(zip(copy.deepcopy(model).modules(), kinds, strict=True))
        results["another class"] = type(model[0].bn1) is not nn.BatchNorm2d
        results["but a kind of its own, copies too"] = all(isinstance(m, kind) for m, kind in pairs)
        results["own forward kept"] = type(model[1]) is Own
    results["put back"] = [type(m) for m in model.modules()] == kinds
    results["names"] = list(model.state_dict()) == names
    return results


def test_a_layer_keeps_its_kind_and_its_names(pair: Team) -> None:
    for results in pair(classes):
        assert all(results.values()), results
