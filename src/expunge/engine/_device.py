"""The device that a model runs on."""

from __future__ import annotations

import torch
from torch import nn

from expunge._errors import InvalidInput


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


def hand_over(model: nn.Module, device: torch.device) -> nn.Module:
    """The model as a user expects it: eval mode, no gradients, plain layout, on ``device``."""
    model.zero_grad(set_to_none=True)
    model = model.to(device).to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
    return model.eval()
