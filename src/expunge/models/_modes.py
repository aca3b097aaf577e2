"""The training mode of a model, saved and restored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


@contextmanager
def kept_modes(model: nn.Module) -> Iterator[None]:
    """Every module leaves in the mode, train or eval, in which it entered."""
    modes = [(module, module.training) for module in model.modules()]
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """The model in eval mode, and back as it was."""
    with kept_modes(model):
        model.eval()
        yield
