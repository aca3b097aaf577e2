"""The methods that change the weights before the first step: MSG, CT and retraining."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import expunge
from expunge._errors import InvalidInput
from expunge.methods import Batch, ConvTranspose, MaskSmallGradients, Problem, Retrain
from expunge.methods._retrain import reset_parameters
from tests.tiny import TinyConv, bits, images, same


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


def test_retrain_draws_all_weights_anew_and_resets_statistics() -> None:
    model = TinyConv()
    with torch.no_grad():
        model.bn1.weight.fill_(7.0)
        model.bn1.running_mean.fill_(7.0)
    before, state = bits(model), torch.get_rng_state()
    Retrain().prepare(Problem(model))
    assert torch.equal(torch.get_rng_state(), state)
    for name in ("conv1.weight", "conv1.bias", "conv2.weight", "head.weight", "head.bias"):
        assert not (model.state_dict()[name] == before[name]).any(), name
    assert torch.equal(model.bn1.weight, torch.ones(4))
    assert torch.equal(model.bn1.running_mean, torch.zeros(4))


def test_retrain_without_reset_starts_from_the_weights_given() -> None:
    model = TinyConv()
    before = bits(model)
    Retrain(reset=False).prepare(Problem(model))
    assert same(bits(model), before)


def test_reset_keeps_frozen_parameters_and_their_statistics() -> None:
    model = TinyConv()
    for module in (model.conv1, model.bn1):
        module.requires_grad_(False)
    model.conv2.weight.requires_grad_(True)
    with torch.no_grad():
        model.bn1.running_mean.fill_(7.0)
    before = bits(model)
    reset_parameters(model)
    for name in ("conv1.weight", "conv1.bias", "bn1.weight", "bn1.running_mean"):
        assert torch.equal(model.state_dict()[name], before[name]), name
    assert not torch.equal(model.conv2.weight, before["conv2.weight"])


def test_a_parameter_without_a_way_to_be_reset_is_named() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.scale

    with pytest.raises(InvalidInput, match=r"1\.scale.*Retrain\(reset=False\)"):
        reset_parameters(nn.Sequential(nn.Linear(3, 3), Scaled()))


def test_retrain_goes_over_retain_and_ends_independent_of_the_weights_given() -> None:
    ends = []
    for seed in (0, 1):
        result = expunge.unlearn(
            TinyConv(seed=seed),
            forget=images(4),
            retain=images(12, seed=1),
            method="retrain",
            addon="none",
            epochs=2,
            batch_size=4,
        )
        assert [row["steps"] for row in result.history.epochs] == [3, 3]
        ends.append(bits(result.model))
    assert same(*ends)
