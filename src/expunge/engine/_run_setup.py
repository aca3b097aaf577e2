"""The model and the optimizer of a run, made from what the user gave."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Annotated

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from expunge._errors import InvalidInput
from expunge.data import Batch, Source, Stream
from expunge.engine._recipe import Recipe
from expunge.update import is_sharded

OptimizerFactory = Annotated[
    Callable[..., torch.optim.Optimizer],
    "a class of torch.optim, or a function of the parameters, such as lambda params: "
    "torch.optim.SGD(params, lr=0.1) (the model is copied, and an optimizer made before belongs to "
    "other parameters)",
]


def check_weights(model: nn.Module) -> None:
    """Raise unless all weights of ``model`` are there."""
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        if is_lazy(tensor) or tensor.is_meta:
            raise InvalidInput(
                f"The model should have its weights. ({name} is on the device meta, or waits for a "
                "first batch) Load them, or call the model once, before."
            )


def copy_model(model: nn.Module) -> nn.Module:
    """A copy of ``model`` that can be trained."""
    if any(map(is_sharded, model.parameters())):
        raise InvalidInput(
            "The model should be whole: `unlearn` works on a copy of it, and a sharded model has "
            "none. Step a sharded model with `expunge.Update` in a loop; see "
            "docs/how-to/large-models.md. "
            "(got parameters sharded over processes)"
        )
    check_weights(model)
    try:
        copied = copy.deepcopy(model)
    except (RuntimeError, TypeError) as error:
        raise InvalidInput(
            f"The model should be one that copy.deepcopy can copy. ({error}) Use "
            "torch.nn.utils.parametrizations in place of hooks, and drop what cannot be copied."
        ) from error
    if not all(p.is_leaf for p in copied.parameters()):
        raise InvalidInput(
            "The copy of the model should have parameters of its own. (got "
            f"{type(model).__name__}) Pass the module that it was compiled from."
        )
    return copied


def make_optimizer(
    chosen: OptimizerFactory | Recipe | None,
    params: list[nn.Parameter],
    *,
    lr: float,
    device: torch.device,
) -> torch.optim.Optimizer:
    """The optimizer of a run: the recipe's, one that the user's function makes, or Adam."""
    if isinstance(chosen, Recipe):
        return chosen.optimizer(params)
    if chosen is None:
        return torch.optim.Adam(params, lr=lr, fused=device.type in ("cpu", "cuda"))
    options = {"lr": lr} if isinstance(chosen, type) else {}
    try:
        made = chosen(params, **options)
    except (TypeError, ValueError) as error:
        called = getattr(chosen, "__name__", "make")
        raise InvalidInput(
            f"`optimizer` should be a function of the parameters alone. ({called}: {error}) "
            f"Pass lambda given: {called}(given, ...)."
        ) from error
    groups = made.param_groups if isinstance(made, torch.optim.Optimizer) else []
    moved = {id(p) for group in groups for p in group["params"]}
    if isinstance(made, torch.optim.LBFGS) or moved.isdisjoint(map(id, params)):
        raise InvalidInput(
            "`optimizer` should make a torch optimizer of the parameters that it is given, one "
            f"that steps without a closure. (made {type(made).__name__})"
        )
    return made


def one_pass(forget: Source, retain: Source) -> Iterator[tuple[Batch, Batch]]:
    """Every forget batch once, each paired with the next retain batch."""
    beside = Stream(retain)
    for batch in forget.walk(0, 0):
        yield batch, next(beside)


def forked_random(device: torch.device) -> AbstractContextManager[None]:
    """Within, draws do not move the global random state."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])


def hand_over(model: nn.Module, device: torch.device) -> nn.Module:
    """The model as a user expects it: eval mode, no gradients, plain layout, on ``device``."""
    model.zero_grad(set_to_none=True)
    model = model.to(device).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return model.eval()
