"""Where a model runs: on which device, in which memory layout."""

from __future__ import annotations

import copy

import torch
from torch import nn

from expunge._errors import InvalidInput
from expunge.data._batches import Source


def pick_device(device: str | torch.device, model: nn.Module) -> torch.device:
    """``auto``: where the model is if that is an accelerator, else one if there is one."""
    if device != "auto":
        try:
            return torch.empty(0, device=device).device
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            reason = str(error).splitlines()[0]
            raise InvalidInput(f"The device {device} cannot be used here: {reason}") from error
    home = device_of(model)
    if home.type == "cpu" and torch.accelerator.is_available():
        found = torch.accelerator.current_accelerator()
        assert found is not None
        return found
    return home


def device_of(model: nn.Module) -> torch.device:
    """Where the model is."""
    first = next(model.parameters(), None)
    return torch.device("cpu") if first is None else first.device


def fast_layout(model: nn.Module, data: Source) -> nn.Module:
    """Channels-last where there are 2-D convolutions: the same numbers, faster.

    A model that counts on the plain layout (``x.view(len(x), -1)`` after a convolution) keeps it;
    two examples tell.
    """
    if not any(isinstance(m, nn.Conv2d) for m in model.modules()):
        return model
    first = next(data.walk(0, 0), None)
    if first is None:
        return model
    try:
        trial = _channels_last(copy.deepcopy(model).eval())
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            trial(first.inputs[:2])
    except RuntimeError:
        return model
    return _channels_last(model)


def _channels_last(model: nn.Module) -> nn.Module:
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


def finished(model: nn.Module, home: torch.device) -> nn.Module:
    """The model as a user expects it: eval mode, no gradients, plain layout, on its old device."""
    model.zero_grad(set_to_none=True)
    model = model.to(home).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return model.eval()
