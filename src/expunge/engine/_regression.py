"""Regressions: the loss that a model of numbers is trained and unlearned with."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge.data import Examples
from expunge.methods import Loss


@dataclass(frozen=True)
class SquaredError:
    """The mean squared error of outputs [N, 1] or [N], in units of ``scale``².

    With the deviation of the labels as its scale, learning rates mean what they mean for classes:
    a model that always predicts the mean has a loss of 1.

    >>> import torch
    >>> float(SquaredError(scale=2.0)(torch.tensor([[3.0], [5.0]]), torch.tensor([1.0, 5.0])))
    0.5
    """

    scale: float = 1.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return F.mse_loss(as_numbers(outputs), targets) / self.scale**2


def as_numbers(outputs: Tensor) -> Tensor:
    """One number per example [N], from outputs [N, 1] or [N]."""
    if outputs.ndim == 2 and outputs.shape[1] == 1:
        return outputs[:, 0]
    if outputs.ndim != 1:
        raise InvalidInput(
            "The model of a regression should return one number per example, [N, 1]. "
            f"(got {list(outputs.shape)})"
        )
    return outputs


def label_statistics(data: Examples) -> tuple[float, float]:
    """Mean and standard deviation of the numbers to predict; the latter 1 if there is but one."""
    labels = data.labels.double()
    deviation = float(labels.std(correction=0))
    return float(labels.mean()), deviation if deviation > 0 else 1.0


def loss_for(data: Examples) -> Loss:
    """The loss that suits the labels: cross-entropy of classes, squared error of numbers."""
    return SquaredError(label_statistics(data)[1]) if data.is_regression else F.cross_entropy
