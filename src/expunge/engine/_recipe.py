"""How an initial or ideal model is trained."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from expunge._errors import InvalidInput
from expunge._kinds import Count, NotNegative, Positive, Range, check_fields
from expunge._options import Schedule, is_implied

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer
    from torch.optim.lr_scheduler import LRScheduler

    from expunge.engine._procedure import Procedure

Algorithm = Literal["sgd", "adam", "adamw"]


@dataclass(frozen=True)
class Recipe:
    """SGD with momentum, Adam or AdamW; the defaults are the paper's recipe.

    ``schedule="step"`` multiplies the rate by 0.1 once, after 91 % of the epochs (91 of 100, as
    published). ``"one-cycle"`` warms up over the first 30 % and anneals to zero along a cosine: for
    short trainings. ``"linear"`` falls to zero, ``"constant"`` stays. ``momentum`` is that of SGD;
    ``weight_decay`` is part of the gradient, but not for AdamW. The last ``plain_epochs`` see the
    images as they are, without augmentation: a model of a short training comes to remember them, as
    one of a long training does.
    """

    epochs: Count = 100
    batch_size: Count = 256
    lr: Positive = 0.1
    momentum: Annotated[float, Range(0, 1, "[)")] = 0.9
    weight_decay: NotNegative = 5e-4
    schedule: Schedule = "step"
    algorithm: Algorithm = field(default="sgd", metadata={"later": True})
    plain_epochs: int = field(default=0, metadata={"later": True})

    def __post_init__(self) -> None:
        check_fields(self)
        if not 0 <= self.plain_epochs <= self.epochs:
            raise InvalidInput(
                f"`plain_epochs` should be from 0 to `epochs` = {self.epochs}. "
                f"(got {self.plain_epochs})"
            )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for cards and keys; what came later is left out where it is implied."""
        values = {item: getattr(self, item.name) for item in fields(self)}
        return {item.name: value for item, value in values.items() if not is_implied(item, value)}

    def optimizer(self, params: list[nn.Parameter]) -> Optimizer:
        """The optimizer."""
        from torch.optim import SGD, Adam, AdamW

        if self.algorithm == "sgd":
            return SGD(params, lr=self.lr, momentum=self.momentum, weight_decay=self.weight_decay)
        make = Adam if self.algorithm == "adam" else AdamW
        return make(params, lr=self.lr, weight_decay=self.weight_decay)

    def shortened(self, share: float, rate: float = 1.0) -> Recipe:
        """The recipe for ``share`` of its epochs, at least one, in one cycle up to ``rate`` × lr.

        >>> Recipe(epochs=50, lr=0.1).shortened(0.2, rate=2)
        Recipe(epochs=10, batch_size=256, lr=0.2, momentum=0.9, weight_decay=0.0005, \
schedule='one-cycle', algorithm='sgd', plain_epochs=0)
        """
        epochs = max(round(share * self.epochs), 1)
        plain = min(round(share * self.plain_epochs), epochs)
        return replace(
            self, epochs=epochs, lr=rate * self.lr, plain_epochs=plain, schedule="one-cycle"
        )


def check_recipe(values: dict[str, Any]) -> dict[str, Any]:
    """The values, if they make a recipe; a ValueError if they do not."""
    try:
        Recipe(**values)
    except TypeError as error:
        raise ValueError(f"{error}") from error
    return values


def common_options(chosen: Recipe | Procedure) -> dict[str, Any]:
    """Epochs, batch size and rate, which a recipe and a procedure both have."""
    return {name: getattr(chosen, name) for name in ("epochs", "batch_size", "lr")}


def make_schedule(name: str, optimizer: Optimizer, steps: int) -> LRScheduler | None:
    """The schedule ``name`` over ``steps``, to be called once per step; None for ``constant``."""
    from torch.optim.lr_scheduler import LambdaLR

    if name == "constant":
        return None
    return LambdaLR(optimizer, lambda step: rate_factor(name, step / max(steps, 1)))


def rate_factor(schedule: str, share: float) -> float:
    """The rate as a multiple of the peak rate after ``share`` of the training."""
    if schedule == "step":
        return 1.0 if share < 0.91 else 0.1
    if schedule == "linear":
        return max(1.0 - share, 0.0)
    if share < 0.3:
        return 0.04 + 0.96 * (share / 0.3)
    return 0.5 * (1.0 + math.cos(math.pi * (min(share, 1.0) - 0.3) / 0.7))
