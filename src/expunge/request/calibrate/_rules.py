"""The numbers a calibrated run is steered by, and how fast it has to go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from expunge._errors import InvalidInput


@dataclass(frozen=True)
class Rules:
    """When to stop, to go faster, to mend and to go back.

    Args:
        floor: points of utility (accuracy on val) that may be lost in the end.
        depth: points that may be lost on the way; beyond it the run goes back.
        patience: epochs that mending may take to bring utility above the floor.
        mend: the rate while mending, as a share of the rate before.
        push: the share of the epochs after which mending has to begin.
        rollbacks: how often the run may go back before it ends.
        pause: epochs between two changes of speed, so that the first can show.
        lr_cap: the largest rate, as a multiple of the first.
        alpha_cap: the largest α.
    """

    floor: float = 2.0
    depth: float = 20.0
    patience: int = 10
    mend: float = 0.2
    push: float = 0.5
    rollbacks: int = 6
    pause: int = 2
    lr_cap: float = 32.0
    alpha_cap: float = 0.5

    def __post_init__(self) -> None:
        for name, least in (("floor", 0.0), ("depth", self.floor), ("lr_cap", 1.0)):
            if not getattr(self, name) >= least:
                raise InvalidInput(
                    f"`{name}` should be at least {least:g}. (got {getattr(self, name)})"
                )
        for name in ("alpha_cap", "mend", "push"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise InvalidInput(f"`{name}` should be in (0, 1). (got {getattr(self, name)})")
        if min(self.patience, self.rollbacks) < 0 or self.pause < 1:
            raise InvalidInput(
                "`patience` and `rollbacks` should not be negative, `pause` at least 1. "
                f"(got {self.patience}, {self.rollbacks} and {self.pause})"
            )

    def horizon(self, epochs: int) -> int:
        """The epoch after which there is no pushing while utility is below the floor."""
        return math.ceil(self.push * epochs)


def epochs_to_go(gaps: Sequence[float]) -> float:
    """Epochs until a falling gap reaches 0, along the line through its first and last value.

    0 where it is there already, infinite where it does not fall.

    >>> epochs_to_go([6.0, 5.0, 4.0])
    4.0
    >>> epochs_to_go([4.0, 4.0])
    inf
    """
    if gaps[-1] <= 0.0:
        return 0.0
    fall = (gaps[0] - gaps[-1]) / max(len(gaps) - 1, 1)
    return gaps[-1] / fall if fall > 0.0 else math.inf


def speed_up(needed: float, left: int) -> float:
    """The factor on the speed for a way of ``needed`` epochs in ``left``: 1.25 to 2.

    >>> speed_up(needed=18.0, left=12), speed_up(math.inf, 12), speed_up(10.0, 12)
    (1.5, 2.0, 1.0)
    """
    if needed <= left:
        return 1.0
    return min(max(needed / max(left, 1), 1.25), 2.0)


def fit_batch(batch_size: int, size: int) -> int:
    """``batch_size``, but no more than a quarter of the forget set, and 16 at least.

    An epoch should take a few steps: one is too coarse to compare after.

    >>> fit_batch(256, 4500), fit_batch(256, 200), fit_batch(256, 10)
    (256, 50, 16)
    """
    return min(batch_size, max(16, size // 4))
