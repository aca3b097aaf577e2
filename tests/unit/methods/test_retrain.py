"""Retraining: all weights are drawn again before the first step."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge._errors import InvalidInput
from expunge.methods import Problem, Retrain
from expunge.methods._retrain import reset_parameters
from tests import tiny
from tests.tiny import TinyConv, bits, images, same


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


@pytest.mark.parametrize("inside", [False, True])
def test_a_model_of_transformers_is_made_again_from_its_config(inside: bool) -> None:
    library = pytest.importorskip("transformers")
    config = library.LlamaConfig(
        vocab_size=12,
        hidden_size=8,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        tie_word_embeddings=True,
    )
    llama = library.LlamaForCausalLM(config)
    with torch.no_grad():
        for p in llama.parameters():
            p.add_(7.0)
    llama.model.norm.weight.requires_grad_(False)
    reset_parameters(nn.Sequential(llama) if inside else llama)
    assert torch.equal(llama.model.layers[0].input_layernorm.weight, torch.ones(8))
    assert torch.equal(llama.model.norm.weight, torch.full((8,), 8.0)), "frozen"
    assert llama.lm_head.weight is llama.model.embed_tokens.weight
    assert all(p.abs().max() < 2 for p in llama.parameters() if p.requires_grad)
    assert 0.005 < float(llama.lm_head.weight.detach().std()) < 0.06, "as transformers draws them"


def test_retrain_goes_over_retain_and_ends_independent_of_the_weights_given() -> None:
    ends = []
    for seed in (0, 1):
        result = tiny.unlearn(
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


def test_retraining_from_a_checkpoint_starts_at_its_weights(tmp_path: Path) -> None:
    checkpoint, given = TinyConv(), TinyConv()
    file = tmp_path / "base.safetensors"
    tensors.save(file, checkpoint.state_dict(), {})
    for reference in (checkpoint, checkpoint.state_dict(), str(file)):
        model = copy.deepcopy(given)
        Retrain(reference=reference).prepare(Problem(model))
        wanted = dict(checkpoint.named_parameters())
        assert all(torch.equal(p, wanted[name]) for name, p in model.named_parameters())


def test_a_checkpoint_of_another_model_is_refused_with_the_tensor_that_differs() -> None:
    state = {**TinyConv().state_dict(), "head.weight": torch.zeros(2, 2)}
    with pytest.raises(InvalidInput, match=r"head.weight: of shape \[2, 2\]"):
        Retrain(reference=state).prepare(Problem(TinyConv()))
    del state["head.weight"]
    with pytest.raises(InvalidInput, match=r"head.weight: missing"):
        Retrain(reference=state).prepare(Problem(TinyConv()))
