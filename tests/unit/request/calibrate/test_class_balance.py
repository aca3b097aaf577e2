"""The bias that classes are balanced with: it is found where what is added to it is added."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn

from expunge.evaluation import Predictions, predict
from expunge.methods._class_balance import balancing_offsets
from expunge.request.calibrate._class_balance import (
    balancing_offsets_on,
    output_bias,
    with_offsets,
)
from expunge.request.calibrate._target import EXPONENTS, ClassCounts


class Scaled(nn.Module):
    """Divides its logits by a temperature, so that its bias is not added to them as it is."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.Tensor(self.last(x) / 2.0)


def test_the_bias_of_the_output_is_found_and_others_are_not() -> None:
    data = torch.utils.data.TensorDataset(torch.randn(6, 4), torch.arange(6) % 3)
    net = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3))
    weights = {name: value.clone() for name, value in net.state_dict().items()}
    assert output_bias(net, data) == "2.bias"
    assert all(torch.equal(weights[name], value) for name, value in net.state_dict().items())
    before = predict(net, data)
    offsets = torch.tensor([1.0, -2.0, 0.5])
    with torch.no_grad():
        net.get_parameter("2.bias").add_(offsets)
    after = predict(net, data)
    torch.testing.assert_close(after.logits, with_offsets(before, offsets).logits)
    assert output_bias(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), data) == "1.bias"
    assert output_bias(Scaled(), data) is None
    assert output_bias(nn.Linear(4, 3, bias=False), data) is None


def test_a_class_of_which_much_is_forgotten_is_expected_to_lose_more() -> None:
    labels = torch.arange(4000) % 2
    noise = torch.randn(4000, 2, generator=torch.Generator().manual_seed(0))
    val = Predictions(2.0 * nn.functional.one_hot(labels) + noise, labels)
    forgotten, retained = torch.zeros(600, dtype=torch.int64), torch.arange(1400) % 2
    counts = ClassCounts.of(val, forgotten, retained)
    error = 1.0 - counts.correct / counts.val
    share = 700 / 1300
    grown = np.mean([error[0] * share**-b for b in EXPONENTS])
    goal = torch.tensor([1.0 - grown, 1.0 - error[1]])
    found = balancing_offsets_on(val, counts, ())
    assert torch.equal(found, balancing_offsets(val.logits, val.labels, goal))
    assert found[0] < 0.0 < found[1]
