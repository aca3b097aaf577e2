"""A model on this machine: its device, the memory layout of its images, and its speed.

Convolutions run channels-last where a model takes it, which is faster on most machines. A model
that counts on the plain layout (``x.view(len(x), -1)`` after a convolution) keeps it.
"""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge.data import Source, rows_of
from expunge.engine._run_parts import NOTHING_MOVES, copy_model
from expunge.methods import Loss, apply


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


def channels_last(images: Tensor) -> Tensor:
    """``images`` [N, C, H, W] in the channels-last layout."""
    return images.contiguous(memory_format=torch.channels_last)


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
    """The model with its weights channels-last, if it has convolutions and runs so on ``data``."""
    first = next(data.walk(0, 0), None) if _has_convolutions(model) else None
    if first is None:
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
                return apply(self.model, channels_last(inputs))
            except InvalidInput:  # if the layout is not the reason, the plain one fails as well
                self.fast = False
        return apply(self.model, inputs.contiguous() if isinstance(inputs, Tensor) else inputs)


def _has_convolutions(model: nn.Module) -> bool:
    return any(isinstance(module, nn.Conv2d) for module in model.modules())


def _to_channels_last(model: nn.Module) -> nn.Module:
    """Lay out the weights channels-last, in place: the same numbers in another order."""
    return model.to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]


@dataclass(frozen=True)
class StepTimes:
    """Seconds per example: in a training step, also in processor time, and in inference."""

    training: float
    inference: float
    training_processor: float = math.nan


def measure_step_times(
    model: nn.Module,
    inputs: Tensor,
    labels: Tensor,
    batch_size: int,
    repeat: int = 3,
    loss: Loss = F.cross_entropy,
) -> StepTimes:
    """Time ``model`` on batches of ``batch_size``: medians of ``repeat`` runs after a warm-up."""
    net = copy_model(model)
    if not any(p.requires_grad for p in net.parameters()):
        raise InvalidInput(NOTHING_MOVES)
    count, device = min(batch_size, len(inputs)), device_of(net)
    x, y = inputs[:count].to(device), labels[:count].to(device)
    if x.ndim == 4 and x.shape[1] > 1 and runs_on(net.eval(), channels_last(x)):
        net, x = _to_channels_last(net), channels_last(x)

    def step() -> None:
        loss(apply(net, x), y).backward()  # type: ignore[no-untyped-call]

    def run() -> None:
        with torch.inference_mode():
            net(x)

    net.train()
    training, processor = _medians(step, repeat, device)
    net.eval()
    inference, _ = _medians(run, repeat, device)
    size = max(count, 1)
    return StepTimes(training / size, inference / size, processor / size)


def _medians(action: Callable[[], None], repeat: int, device: torch.device) -> tuple[float, float]:
    """Wall and processor seconds."""
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter(), time.process_time()
        action()
        if device.type != "cpu":
            torch.accelerator.synchronize()
        times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
    wall, processor = (sorted(clock)[repeat // 2] for clock in zip(*times[1:], strict=True))
    return wall, processor
