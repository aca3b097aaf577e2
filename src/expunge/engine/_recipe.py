"""How an initial or ideal model is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from expunge._errors import InvalidInput
from expunge._options import is_implied
from expunge._part_values import check_fields

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

Schedule = Literal["step", "one-cycle"]
Algorithm = Literal["sgd", "adamw"]


@dataclass(frozen=True)
class Recipe:
    """SGD with momentum, or AdamW; the defaults are the paper's recipe.

    ``schedule="step"`` multiplies the rate by 0.1 once, after 91 % of the epochs (91 of 100, as
    published). ``"one-cycle"`` warms up over the first 30 % and anneals to zero along a cosine: for
    short trainings. ``momentum`` is that of SGD. The last ``plain_epochs`` see the images as they
    are, without augmentation: a model of a short training comes to remember them, as one of a long
    training does.
    """

    epochs: int = 100
    batch_size: int = 256
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 5e-4
    schedule: Schedule = "step"
    algorithm: Algorithm = field(default="sgd", metadata={"later": True})
    plain_epochs: int = field(default=0, metadata={"later": True})

    def __post_init__(self) -> None:
        check_fields(self)
        if self.epochs < 1:
            raise InvalidInput(f"`epochs` should be at least 1. (got {self.epochs})")
        if self.batch_size < 1:
            raise InvalidInput(f"`batch_size` should be at least 1. (got {self.batch_size})")
        if not 0 < self.lr < math.inf:
            raise InvalidInput(f"`lr` should be positive and finite. (got {self.lr})")
        for name in ("momentum", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                got = getattr(self, name)
                raise InvalidInput(f"`{name}` should be finite and not negative. (got {got})")
        if not 0 <= self.plain_epochs <= self.epochs:
            raise InvalidInput(
                f"`plain_epochs` should be from 0 to `epochs` = {self.epochs}. "
                f"(got {self.plain_epochs})"
            )
        if self.schedule not in get_args(Schedule):
            names = ", ".join(get_args(Schedule))
            raise InvalidInput(f"`schedule` should be one of {names}. (got {self.schedule!r})")
        if self.algorithm not in get_args(Algorithm):
            names = ", ".join(get_args(Algorithm))
            raise InvalidInput(f"`algorithm` should be one of {names}. (got {self.algorithm!r})")

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for cards and keys; what came later is left out where it is implied."""
        values = {item: getattr(self, item.name) for item in fields(self)}
        return {item.name: value for item, value in values.items() if not is_implied(item, value)}

    def optimizer(self, params: list[nn.Parameter]) -> Optimizer:
        """The optimizer."""
        from torch.optim import SGD, AdamW

        if self.algorithm == "adamw":
            return AdamW(params, lr=self.lr, weight_decay=self.weight_decay)
        return SGD(params, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)

    def scheduler(self, optimizer: Optimizer, steps_per_epoch: int) -> LRScheduler:
        """The schedule, to be called once per step."""
        return make_schedule(self.schedule, optimizer, self.epochs * steps_per_epoch)

    def shortened(self, share: float) -> Recipe:
        """The recipe for ``share`` of its epochs, at least one, with one cycle of the rate.

        >>> Recipe(epochs=50, lr=0.1).shortened(0.2)
        Recipe(epochs=10, batch_size=256, lr=0.1, momentum=0.9, weight_decay=0.0005, \
schedule='one-cycle', algorithm='sgd', plain_epochs=0)
        """
        if share == 1.0:
            return self
        epochs = max(round(share * self.epochs), 1)
        plain = min(round(share * self.plain_epochs), epochs)
        return replace(self, epochs=epochs, plain_epochs=plain, schedule="one-cycle")


def make_schedule(name: str, optimizer: Optimizer, steps: int) -> LRScheduler:
    """The schedule ``name`` over ``steps``, to be called once per step."""
    from torch.optim.lr_scheduler import LambdaLR

    return LambdaLR(optimizer, lambda step: rate_factor(name, step / max(steps, 1)))


def rate_factor(schedule: str, share: float) -> float:
    """The rate as a multiple of the peak rate after ``share`` of the training.

    >>> [round(rate_factor("one-cycle", share), 2) for share in (0, 0.3, 0.65, 1)]
    [0.04, 1.0, 0.5, 0.0]
    """
    if schedule == "step":
        return 1.0 if share < 0.91 else 0.1
    if schedule == "linear":
        return max(1.0 - share, 0.0)
    if share < 0.3:
        return 0.04 + 0.96 * (share / 0.3)
    return 0.5 * (1.0 + math.cos(math.pi * (min(share, 1.0) - 0.3) / 0.7))
