"""The ideal: a model trained from scratch on the retained data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.data import Split
from expunge.methods._fine_tune import FineTune
from expunge.methods._problem import Problem


@dataclass(frozen=True)
class Retrain(FineTune):
    """Forget everything, then U = L on retain, with the recipe of the initial model.

    An epoch is one pass over the retain set. Every submodule's ``reset_parameters`` draws the new
    weights; frozen parameters stay. ``reset=False`` starts from the weights as given, for a model
    that is fresh already.

    Use it to have the ideal model that others are compared with, or where a doubt is worth the
    price of a training.

    Reference: Y. Cao, J. Yang, *Towards Making Systems Forget with Machine Unlearning*, IEEE S&P
    2015.
    """

    epoch_over: ClassVar[Split] = "retain"
    reads_forget: ClassVar[bool] = False
    preferred: ClassVar[dict[str, Any]] = {"lr": 0.1}

    reset: bool = True

    def own_recipe(self, recipe: Any) -> Any:
        return recipe

    def prepare(self, problem: Problem) -> None:
        if not self.reset:
            return
        seed = int(torch.randint(2**62, (), generator=problem.generator))
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
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
    with torch.no_grad():
        for p, value in frozen.items():
            p.copy_(value)
    return [name for name, p in model.named_parameters() if p not in covered]
