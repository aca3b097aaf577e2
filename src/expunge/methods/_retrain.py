"""The ideal: a model trained from scratch on the retained data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge._errors import InvalidInput
from expunge.data import Split
from expunge.methods._fine_tune import FineTune
from expunge.methods._problem import Problem


@dataclass(frozen=True)
class Retrain(FineTune):
    """Forget everything, then U = L on retain, with the recipe of the initial model.

    An epoch is one pass over the retain set. Every submodule's ``reset_parameters`` draws the new
    weights, or a model of transformers is made again from its config; frozen parameters stay.
    ``reset=False`` starts from the weights as given, for a model that is fresh already.
    ``reference`` are weights to start from in place of fresh ones, such as the checkpoint that a
    language model was fine-tuned from, which never saw the records: a model, its
    ``state_dict()``, or a safetensors file.

    Use it to have the ideal model that others are compared with, or where a doubt is worth the
    price of a training.

    Reference: Y. Cao, J. Yang, *Towards Making Systems Forget with Machine Unlearning*, IEEE S&P
    2015.
    """

    epoch_over: ClassVar[Split] = "retain"
    reads_forget: ClassVar[bool] = False
    preferred: ClassVar[dict[str, Any]] = {"lr": 0.1}

    reset: bool = True
    reference: Any = field(default=None, repr=False)  # names of checkpoints stay

    def own_recipe(self, recipe: Any) -> Any:
        return recipe

    def prepare(self, problem: Problem) -> None:
        if self.reference is not None:
            start_from(problem.model, state_of(self.reference))
        elif self.reset:
            with problem.seeded():
                reset_parameters(problem.model)


def reset_parameters(model: nn.Module) -> None:
    """Draw all trainable weights again, in place; refuse a model with one that cannot be reset."""
    if left := draw_again(model):
        raise InvalidInput(
            "These parameters belong to modules without `reset_parameters`: "
            f"{', '.join(left[:5])}. Pass a freshly initialised model and `Retrain(reset=False)`."
        )


def draw_again(model: nn.Module) -> list[str]:
    """Draw trainable weights again, in place; the names of those that no module can draw."""
    frozen = {p: p.detach().clone() for p in model.parameters() if not p.requires_grad}
    covered: set[nn.Parameter] = {*frozen}
    for module in reversed(list(model.modules())):  # children first, their parents may refine
        reset = getattr(module, "reset_parameters", None)
        parameters = set(module.parameters(recurse=False))
        if callable(reset) and not (parameters and parameters <= frozen.keys()):
            reset()
            covered |= parameters
        if hasattr(module, "reset_lora_parameters"):  # of PEFT: then the model is the one below
            for adapter in module.lora_A:  # type: ignore[union-attr]
                module.reset_lora_parameters(adapter, True)  # type: ignore[operator]
    left = {p for p in model.parameters() if p not in covered}
    with torch.no_grad():
        if left:
            left -= _draw_from_config(model)
        for p, value in frozen.items():
            p.copy_(value)
    return [name for name, p in model.named_parameters() if p in left]


def _draw_from_config(model: nn.Module) -> set[nn.Parameter]:
    """Draw the weights of a model of transformers as one made from its config has them; which."""
    kinds = (m for m in model.modules() if hasattr(m, "config") and hasattr(m, "_init_weights"))
    own = next(kinds, None)
    if own is None:
        return set()
    fresh = dict(type(own)(own.config).named_parameters())
    drawn = {p: fresh[name] for name, p in own.named_parameters() if name in fresh}
    for p, value in drawn.items():
        p.copy_(value)
    return {*drawn}


@torch.no_grad()
def start_from(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy a checkpoint into the trainable weights; refuse one that lacks any of them."""
    for name, p in model.named_parameters():
        if not p.requires_grad:
            continue
        if name not in state or state[name].shape != p.shape:
            found = f"of shape {list(state[name].shape)}" if name in state else "missing"
            raise InvalidInput(
                "The weights to start from should be those of the same model before it was "
                f"fine-tuned. (got {name}: {found}; it should have the shape {list(p.shape)})"
            )
        p.copy_(state[name])


def state_of(reference: Any) -> Mapping[str, Tensor]:
    """The tensors of a model, of a state dict or of a file; none of None."""
    if reference is None:
        return {}
    if isinstance(reference, nn.Module):
        return reference.state_dict()
    if isinstance(reference, str | Path):
        return tensors.load(reference)[0]
    if isinstance(reference, Mapping):
        return reference
    raise InvalidInput(
        "`reference` should be a model, its state_dict() or a safetensors file. "
        f"(got {type(reference).__name__})"
    )
