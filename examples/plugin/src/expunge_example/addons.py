"""An add-on: a weight in [0, 1] for every parameter."""

from dataclasses import dataclass

import torch
from torch import Tensor

from expunge import Addon, Signals


@dataclass(frozen=True)
class SoftAnd(Addon):
    """1 where the two gradients agree in sign, 1/2 where they do not.

    Use it as an example of an add-on, halfway between none and AND.
    """

    def weight(self, signals: Signals) -> Tensor:
        """The weight of each parameter of a block."""
        agree = signals.objective * signals.constraint > 0
        return torch.where(agree, 1.0, 0.5).to(signals.objective.dtype)
