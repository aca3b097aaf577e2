"""Seconds per example that training and inference take on this machine, measured on the spot."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge.engine._memory_layout import channels_last, runs_on, to_channels_last
from expunge.engine._run_parts import NOTHING_MOVES, copy_model
from expunge.methods import Loss, apply


@dataclass(frozen=True)
class StepTimes:
    """Seconds per example: in a training step, and in inference."""

    training: float
    inference: float
    training_processor: float = math.nan
    """``training`` in processor time."""


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
    count = min(batch_size, len(inputs))
    device = next((p.device for p in net.parameters()), torch.device("cpu"))
    x, y = inputs[:count].to(device), labels[:count].to(device)
    if x.ndim == 4 and x.shape[1] > 1 and runs_on(net.eval(), channels_last(x)):
        net, x = to_channels_last(net), channels_last(x)

    def step() -> None:
        loss(apply(net, x), y).backward()  # type: ignore[no-untyped-call]

    def run() -> None:
        with torch.inference_mode():
            net(x)

    net.train()
    size = max(count, 1)
    training, processor = _medians(step, repeat, device)
    net.eval()
    return StepTimes(training / size, _medians(run, repeat, device)[0] / size, processor / size)


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
