"""Unlearning adapters alone: the model below them is frozen, shared, and stays as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import expunge
from expunge import Problem
from expunge.data import pad_sequences
from expunge.methods._retrain import draw_again
from expunge.request._forgetting import fit_to_size
from tests import tiny
from tests.tiny import bits, same

transformers = pytest.importorskip("transformers")
pytest.importorskip("peft")

from tests.unit.integrations.trainer_runs import (  # noqa: E402
    FORGET,
    RETAIN,
    adapted,
    gpt,
    trainer,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def trained_adapters(model: nn.Module) -> nn.Module:
    """Adapters that do something already: what they know is part of the initial model."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_B" in name:
                p.normal_(generator=torch.Generator().manual_seed(0))
    return model


def moved(before: dict[str, Any], model: nn.Module) -> set[str]:
    after = bits(model)
    return {name for name in before if not torch.equal(before[name], after[name])}


def test_the_initial_model_shares_all_that_is_frozen() -> None:
    model = trained_adapters(adapted(gpt())).train()
    problem = Problem(model)
    initial = dict(problem.initial.named_parameters())
    for name, p in model.named_parameters():
        assert (p is initial[name]) == (not p.requires_grad)
    before = model.eval()(FORGET.tokens).logits
    with torch.no_grad():
        for p in problem.parameters:
            p.add_(1.0)
    torch.testing.assert_close(problem.initial(FORGET.tokens).logits, before)
    assert not torch.equal(model(FORGET.tokens).logits, before)


@pytest.mark.parametrize("method", ["npo", "gradient-difference", "undial"])
def test_unlearn_moves_adapters_alone(method: str) -> None:
    model = adapted(gpt())
    before = bits(model)
    loaders = {
        name: DataLoader(data, batch_size=4, collate_fn=pad_sequences)
        for name, data in (("forget", FORGET), ("retain", RETAIN))
    }
    result = tiny.unlearn(model, method=method, **loaders, epochs=2, lr=1e-2, progress=False)
    names = moved(before, result.model)
    assert names
    assert all("lora" in name for name in names)
    assert same(bits(model), before)


def test_adapters_are_saved_resumed_and_merged(tmp_path: Path) -> None:
    options = {"save_strategy": "steps", "save_steps": 6, "lr_scheduler_type": "linear"}
    first = trainer(tmp_path, trained_adapters(adapted(gpt())), method="npo", **options)
    before = bits(first.model)
    first.train()
    assert all("lora" in name for name in moved(before, first.model))
    again = trainer(tmp_path / "again", trained_adapters(adapted(gpt())), method="npo", **options)
    again.train(resume_from_checkpoint=str(tmp_path / "checkpoint-6"))
    assert same(bits(first.model), bits(again.model))
    # The merged model is one without adapters, and says the same.
    said = first.model.eval()(FORGET.tokens).logits
    first.model.merge_and_unload().save_pretrained(tmp_path / "merged")
    merged = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(merged(FORGET.tokens).logits, said, rtol=1e-4, atol=1e-5)


def test_recomputed_activations_change_no_step(tmp_path: Path) -> None:
    options = {"method": "npo", "max_steps": 2}
    plain = trainer(tmp_path, adapted(gpt()), **options)
    recomputed = trainer(tmp_path, adapted(gpt()), gradient_checkpointing=True, **options)
    before = bits(recomputed.model)
    for own in (plain, recomputed):
        own.train()
    assert same(bits(plain.model), bits(recomputed.model))
    # A was drawn, B was zero: both have to move.
    for part in ("lora_A", "lora_B"):
        names = {name for name in before if part in name}
        assert names <= moved(before, recomputed.model)


def test_training_again_draws_the_adapters_and_nothing_below_them() -> None:
    model = trained_adapters(adapted(gpt()))
    before = bits(model)
    plain = gpt().eval()(FORGET.tokens).logits
    assert draw_again(model) == []
    assert all("lora" in name for name in moved(before, model))
    torch.testing.assert_close(model.eval()(FORGET.tokens).logits, plain)


def test_a_request_takes_ten_times_the_rate_for_adapters() -> None:
    procedure = expunge.Procedure.preferred(method="match-answers")
    whole, adapters = (fit_to_size(procedure, 24, each).lr for each in (gpt(), adapted(gpt())))
    assert adapters == pytest.approx(10 * whole)


def test_reentrant_recomputation_is_refused(tmp_path: Path) -> None:
    options = {"use_reentrant": True}
    own = trainer(
        tmp_path, adapted(gpt()), gradient_checkpointing=True, gradient_checkpointing_kwargs=options
    )
    with pytest.raises(expunge.InvalidInput, match="pass `use_reentrant=False`"):
        own.train()
