"""A model on this machine: its device, and the memory layout of its images.

Convolutions run channels-last where a model takes it, which is faster on most machines. A model
that counts on the plain layout (``x.view(len(x), -1)`` after a convolution) keeps it.
"""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor, nn

from expunge._errors import InvalidInput
from expunge.data import Source, rows_of
from expunge.methods import apply


def pick_device(device: str | torch.device, model: nn.Module) -> torch.device:
    """The device to run on; ``auto`` is the model's if that is an accelerator, else one if any."""
    if device != "auto":
        try:
            return torch.zeros(1, device=device).cpu().to(device).device  # meta holds no values
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise InvalidInput(f"The device {device} cannot be used here: {reason}") from error
    home = device_of(model)
    if home.type == "cpu" and torch.accelerator.is_available():
        accelerator = torch.accelerator.current_accelerator()
        assert accelerator is not None
        return accelerator
    return home


def device_of(model: nn.Module) -> torch.device:
    """The device of the model's first parameter."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


@torch.no_grad()
def runs_on(model: nn.Module, inputs: Any) -> bool:
    """Whether the model runs on the first two of ``inputs``, in the layout that they have."""
    try:
        with torch.random.fork_rng(devices=[]):
            apply(model, rows_of(inputs, slice(2)))
    except InvalidInput:
        return False
    return True


def fast_layout(model: nn.Module, data: Source) -> nn.Module:
    """The model with its weights channels-last, if it has convolutions and runs so on ``data``.

    On a CPU, oneDNN writes past a buffer in the backward pass of strided 1x1 convolutions of few
    channels in this layout, and the process may die (uxlfoundation/oneDNN#6035, in torch 2.13).
    """
    first = next(data.walk(0, 0), None) if _has_convolutions(model) else None
    if first is None or any(map(_crashes_channels_last, model.modules())):
        return model
    trial = _to_channels_last(copy.deepcopy(model).eval())
    return _to_channels_last(model) if runs_on(trial, first.inputs) else model


class ChannelsLastCalls:
    """Calls a model with images channels-last, or in the plain layout once that has failed."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.fast = _has_convolutions(model)

    def __call__(self, inputs: Any) -> Tensor:
        if self.fast and isinstance(inputs, Tensor) and inputs.ndim == 4 and inputs.shape[1] > 1:
            try:
                fast = inputs.contiguous(memory_format=torch.channels_last)
                return apply(self.model, fast)
            except InvalidInput:  # if the layout is not the reason, the plain one fails as well
                self.fast = False
        return apply(self.model, inputs.contiguous() if isinstance(inputs, Tensor) else inputs)


def _has_convolutions(model: nn.Module) -> bool:
    return any(isinstance(module, nn.Conv2d) for module in model.modules())


def _crashes_channels_last(module: nn.Module) -> bool:
    """Whether it is a convolution that oneDNN may crash on: its blocks have up to 16 channels."""
    if not isinstance(module, nn.Conv2d) or module.weight.device.type != "cpu":
        return False
    strided = max(module.kernel_size) == 1 < max(module.stride)
    return strided and module.weight.shape[1] < 16


def _to_channels_last(model: nn.Module) -> nn.Module:
    """Lay out the weights channels-last, in place: the same numbers in another order."""
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]
