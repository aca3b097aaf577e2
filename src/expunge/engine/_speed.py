"""How fast this machine trains and runs a model: for estimates, from steps taken here and now."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from expunge.data import ImageSet


@dataclass(frozen=True)
class Pace:
    """Seconds an example takes: in a training step, and in inference."""

    training: float
    inference: float


def measure_example(model: nn.Module, data: ImageSet, batch_size: int, repeat: int = 3) -> float:
    """Seconds a training step takes for each of its examples, the median of ``repeat``."""
    return measure_pace(model, data.images, data.labels, batch_size, repeat).training


def measure_pace(
    model: nn.Module, images: Tensor, labels: Tensor, batch_size: int, repeat: int = 3
) -> Pace:
    """The pace of ``model`` on batches of ``batch_size``: medians of ``repeat`` after one more."""
    net = copy.deepcopy(model)
    count = min(batch_size, len(images))
    device = next((p.device for p in net.parameters()), torch.device("cpu"))
    x, y = images[:count].to(device), labels[:count].to(device)
    if x.ndim == 4 and x.shape[1] > 1 and _takes_channels_last(net, x[:2]):
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = x.contiguous(memory_format=torch.channels_last)

    def step() -> None:
        F.cross_entropy(net(x), y).backward()  # type: ignore[no-untyped-call]

    def run() -> None:
        with torch.inference_mode():
            net(x)

    net.train()
    training = _median(step, repeat, device)
    net.eval()
    return Pace(training / max(count, 1), _median(run, repeat, device) / max(count, 1))


@torch.no_grad()
def _takes_channels_last(model: nn.Module, inputs: Tensor) -> bool:
    """Whether it runs so: ``x.view(len(x), -1)`` after a convolution does not."""
    model.eval()
    try:
        model(inputs.contiguous(memory_format=torch.channels_last))
    except RuntimeError:
        return False
    return True


def _median(action: Callable[[], None], repeat: int, device: torch.device) -> float:
    times = []
    for _ in range(repeat + 1):
        start = time.perf_counter()
        action()
        if device.type != "cpu":
            torch.accelerator.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times[1:])[repeat // 2]
