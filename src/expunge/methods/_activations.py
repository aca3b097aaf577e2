"""Activations of a layer inside a model, taken by a hook during an ordinary forward pass."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge.data import Batch
from expunge.methods._problem import Problem
from expunge.methods._tokens import is_labelled


def default_layer(model: nn.Module) -> str:
    """The name of a layer a fifth of the way up: block 7 of 32, as published for RMU.

    Blocks are the longest list of modules that is in no other. A model without such a list has its
    last layer with parameters before the output.

    >>> default_layer(nn.ModuleDict({"blocks": nn.ModuleList(nn.Linear(2, 2) for _ in range(12))}))
    'blocks.2'
    """
    lists = {n: m for n, m in model.named_modules() if isinstance(m, nn.ModuleList) and len(m)}
    outer = {n: m for n, m in lists.items() if not any(n.startswith(f"{o}.") for o in lists)}
    if outer:
        name: str = max(outer, key=lambda n: len(outer[n]))
        return f"{name}.{len(outer[name]) * 7 // 32}"
    own: list[str] = [
        n for n, m in model.named_modules() if any(True for _ in m.parameters(recurse=False))
    ]
    if not own:
        raise InvalidInput("A model whose activations are read should have layers with parameters.")
    return own[-2] if len(own) > 1 else own[0]


def find_layer(model: nn.Module, layer: str | None) -> nn.Module:
    """The module of a name, or the only one whose name ends so; None is the default layer.

    Wrappers such as adapters put their own names in front, so a name holds with and without them.
    """
    modules = dict(model.named_modules())
    name = default_layer(model) if layer is None else layer
    matching = [name] if name in modules else [n for n in modules if n.endswith(f".{name}")]
    if len(matching) != 1:
        near = difflib.get_close_matches(name, modules, n=3, cutoff=0.4)
        hint = f"such as {', '.join(near)}" if near else "see model.named_modules()"
        raise InvalidInput(
            f"`layer` should be the name of one module of the model, {hint}. "
            f"(got {name!r}, which {len(matching) or 'none'} has)"
        )
    found: nn.Module = modules[matching[0]]
    return found


class Activations(NamedTuple):
    """What a layer puts out on a batch, where that leads to a labelled token, and the logits.

    A position leads to the token after it, as its logits do. Of class numbers [B], there is one
    position with all activations of an example.
    """

    values: Tensor
    """[B, T-1, D]"""
    chosen: Tensor
    """Which positions lead to a labelled token, [B, T-1]."""
    logits: Tensor


def activations(
    problem: Problem, batch: Batch, layer: str | None, *, initial: bool = False
) -> Activations:
    """Run the model, or the initial one, on a batch, and read a layer on the way.

    If a layer puts out a tuple, its first entry counts.
    """
    model = problem.initial if initial else problem.model
    with _captured(find_layer(model, layer)) as seen:
        logits = problem.initial_logits(batch) if initial else problem.logits(batch)
    if not seen:
        raise InvalidInput(
            f"The layer {layer or default_layer(model)!r} should take part in the forward pass. "
            "(it was not called)"
        )
    labels, values = batch.targets, seen[0]
    if labels.dim() == 1:
        return Activations(values.flatten(1)[:, None], is_labelled(labels), logits)
    if values.dim() != 3 or values.shape[:2] != labels.shape:
        raise InvalidInput(
            "A layer whose activations are read should put out [B, T, D] for labels [B, T]. "
            f"(got {list(values.shape)} for {list(labels.shape)})"
        )
    return Activations(values[:, :-1], is_labelled(labels), logits)


@contextmanager
def _captured(module: nn.Module) -> Iterator[list[Tensor]]:
    """Within, outputs of a module are appended to the list; a recomputation comes after it."""
    seen: list[Tensor] = []

    def keep(_module: nn.Module, _inputs: Any, output: Any) -> None:
        seen.append(output[0] if isinstance(output, (tuple, list)) else output)

    handle = module.register_forward_hook(keep)
    try:
        yield seen
    finally:
        handle.remove()
