"""The device that a run takes, and models that count on the plain memory layout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import TensorDataset

import expunge
from expunge import InvalidInput
from expunge.data import as_source
from expunge.engine._device import fast_layout, pick_device
from expunge.evaluation import predict
from expunge.models import build_model
from expunge.models._classifiers import BasicBlock
from tests import tiny
from tests.tiny import Counting, points

ROOT = Path(__file__).parents[3]
FORGET, RETAIN = points(6), points(8, seed=1)


def unlearn(model: nn.Module | None = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 1, "batch_size": 2}
    return tiny.unlearn(model or Counting(), **chosen | options)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(InvalidInput, match="The device cuda cannot be used here"):
        unlearn(device="cuda")


def test_auto_stays_on_the_cpu_where_there_is_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    assert pick_device("auto", Counting()) == torch.device("cpu")
    assert pick_device("auto", nn.Flatten()) == torch.device("cpu")


def test_auto_takes_an_accelerator_if_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    found = torch.device("cuda", 1)
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: found)
    assert pick_device("auto", Counting()) == found
    assert pick_device("cpu", Counting()) == torch.device("cpu")


class Viewing(nn.Module):
    """The usual first CNN: ``view`` after a convolution, which channels-last breaks."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.head = nn.Linear(4 * 8 * 8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        logits: Tensor = self.head(x.view(len(x), -1))
        return logits


def test_a_model_that_views_after_a_convolution_can_be_evaluated() -> None:
    torch.manual_seed(0)
    model = Viewing()
    data = TensorDataset(torch.rand(7, 3, 8, 8), torch.arange(7) % 5)
    with torch.no_grad():
        expected = model(data.tensors[0])
    torch.testing.assert_close(predict(model, data, batch_size=3).logits, expected)


def strided(channels: int) -> nn.Module:
    """A network with a strided 1x1 convolution, as in the shortcuts of a ResNet."""
    first, shortcut = nn.Conv2d(3, channels, 3, padding=1), nn.Conv2d(channels, 8, 1, stride=2)
    return nn.Sequential(first, shortcut, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


def runs_channels_last(model: nn.Module) -> bool:
    images = TensorDataset(torch.rand(4, 3, 8, 8), torch.arange(4) % 5)
    home = torch.device("cpu")
    source = as_source(images, split="retain", batch_size=4, seed=0, augment=None, device=home)
    weight = next(fast_layout(model, source).parameters())
    return weight.is_contiguous(memory_format=torch.channels_last)


def test_a_strided_convolution_of_few_channels_keeps_the_plain_layout() -> None:
    assert not runs_channels_last(strided(channels=8))
    assert runs_channels_last(strided(channels=16))
    assert runs_channels_last(build_model("resnet18", num_classes=5, width=1 / 16))


def test_a_shortcut_is_a_strided_convolution() -> None:
    torch.manual_seed(0)
    block, x = BasicBlock(4, 8, stride=2).eval(), torch.rand(2, 4, 7, 7)
    convolution, normalise = block.shortcut
    y = block.bn2(block.conv2(torch.relu(block.bn1(block.conv1(x)))))
    projected = normalise(nn.functional.conv2d(x, convolution.weight, stride=2))
    torch.testing.assert_close(block(x), torch.relu(y + projected))


@pytest.mark.thorough
def test_two_threads_train_narrow_networks_on_batches_of_any_size() -> None:
    """oneDNN kills the process on odd batches in channels-last."""
    script = (
        "import torch; from tests.unit.engine.test_device import *\n"
        "torch.set_num_threads(2)\n"
        "def of(n): return TensorDataset(torch.rand(n, 3, 32, 32), torch.arange(n) % 5)\n"
        "for model in (strided(8), build_model('resnet18', num_classes=5, width=1 / 8)):\n"
        "    unlearn(model, forget=of(17), retain=of(63), batch_size=17)\n"
    )
    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr.decode()
