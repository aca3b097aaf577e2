"""Refuse arguments of ``unlearn`` and ``train`` of the wrong kind, before anything is run."""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn
from torch.optim.lr_scheduler import LRScheduler

from expunge._errors import InvalidInput
from expunge.data._augment import Augment
from expunge.engine._callbacks import Callback


def check_model_kind(model: Any) -> None:
    """Raise unless ``model`` is a module: not its class, its name or its weights."""
    if not isinstance(model, nn.Module):
        got = model.__name__ if isinstance(model, type) else type(model).__name__
        called = f" Call it: {got}()." if isinstance(model, type) else ""
        raise InvalidInput(f"`model` should be a torch.nn.Module. (got {got}){called}")


def check_data_kind(name: str, data: Any) -> None:
    """Raise unless ``data`` can be a split."""
    if not hasattr(data, "__getitem__") and not isinstance(data, torch.utils.data.DataLoader):
        raise InvalidInput(
            f"`{name}` should be a map-style Dataset or a DataLoader. (got {type(data).__name__})"
        )


def check_surroundings(
    *, optimizer: Any, scheduler: Any, loss: Any, augment: Any, checkpoint: Any, callbacks: Any
) -> None:
    """Raise at an argument of a run that cannot be what it should be."""
    if optimizer is not None and not callable(optimizer):
        raise InvalidInput(
            "`optimizer` should be a class of torch.optim, or a function of the parameters: the "
            "model is copied, and an optimizer made before belongs to other parameters. (got "
            f"{type(optimizer).__name__}) Pass torch.optim.SGD, or lambda params: "
            "torch.optim.SGD(params, lr=0.1)."
        )
    if scheduler is not None and (not callable(scheduler) or isinstance(scheduler, LRScheduler)):
        raise InvalidInput(
            f"`scheduler` should be a function of the optimizer. (got {type(scheduler).__name__}) "
            "Pass lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 10)."
        )
    if not callable(loss):
        raise InvalidInput(
            "`loss` should map (logits, targets) to the mean over the batch, as "
            f"torch.nn.functional.cross_entropy does. (got {loss!r})"
        )
    if augment is not None and not isinstance(augment, Augment):
        raise InvalidInput(f"`augment` should be an expunge.Augment, or None. (got {augment!r})")
    if checkpoint is not None and not isinstance(checkpoint, (str, os.PathLike)):
        raise InvalidInput(f"`checkpoint` should be a path, or None. (got {checkpoint!r})")
    if not isinstance(callbacks, (list, tuple)):
        raise InvalidInput(f"`callbacks` should be a list. (got {type(callbacks).__name__})")
    for callback in callbacks:
        if not isinstance(callback, Callback):
            raise InvalidInput(
                "Each of `callbacks` should be an instance of a subclass of expunge.Callback. "
                f"(got {callback!r})"
            )


def make_scheduler(make: Any, optimizer: torch.optim.Optimizer) -> LRScheduler:
    """The scheduler of a run, made by the user's function."""
    try:
        made = make(optimizer)
    except TypeError as error:
        if not isinstance(make, type):
            raise
        raise InvalidInput(
            f"`scheduler` should be a function of the optimizer alone. ({make.__name__}: {error}) "
            f"Pass lambda optimizer: {make.__name__}(optimizer, ...)."
        ) from error
    if not isinstance(made, LRScheduler):
        raise InvalidInput(f"`scheduler` should make a scheduler of torch. (made {made!r})")
    return made
