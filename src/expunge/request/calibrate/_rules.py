"""The numbers that steer a calibrated run, and how fast it has to go."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from expunge._errors import InvalidInput


@dataclass(frozen=True)
class Rules:
    """When to stop, to speed up, to recover utility and to roll back.

    Args:
        floor: points of utility (accuracy on val) that may be lost in the end.
        depth: points that may be lost on the way; beyond that the run is rolled back.
        patience: epochs allowed to bring utility back above the floor.
        mend: the learning rate while recovering utility, as a fraction of the rate before.
        push: the fraction of the epochs after which recovering utility has to begin.
        rollbacks: how many times the run may be rolled back before it ends.
        pause: epochs between two changes of speed, so that the first can take effect.
        lr_cap: the largest learning rate, as a multiple of the initial one.
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
        """The epoch after which the run no longer forgets while utility is below the floor."""
        return math.ceil(self.push * epochs)


def epochs_to_go(gaps: Sequence[float]) -> float:
    """Epochs until a falling gap reaches 0, extrapolated from its first and last value.

    0 if it is there already, infinite if it does not fall.

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
    """The factor by which to speed up to make ``needed`` epochs of progress in ``left``: 1 to 2.

    1 if there is time enough, otherwise at least 1.25.

    >>> speed_up(needed=18.0, left=12), speed_up(math.inf, 12), speed_up(10.0, 12)
    (1.5, 2.0, 1.0)
    """
    if needed <= left:
        return 1.0
    return min(max(needed / max(left, 1), 1.25), 2.0)


def cap_batch_size(batch_size: int, forget_size: int) -> int:
    """``batch_size``, but at most a quarter of the forget set and at least 16.

    An epoch should take a few steps: a single one is too coarse to compare after.

    >>> cap_batch_size(256, 4500), cap_batch_size(256, 200), cap_batch_size(256, 10)
    (256, 50, 16)
    """
    return min(batch_size, max(16, forget_size // 4))
