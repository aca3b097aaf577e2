"""When a run passes whole splits through its model: a pass costs as much as a few steps."""

from __future__ import annotations

REFRESHES = 20
"""About so many passes would be spread evenly over a run; its first half takes half as many."""


def is_refresh(epoch: int, epochs: int) -> bool:
    """Whether splits are passed through the model before ``epoch``, counted from 1.

    Every epoch of the second half of a run of up to 20, where little changes from one to the next
    and small differences count; every second one of the first. Longer runs take longer strides.

    >>> [epoch for epoch in range(1, 11) if is_refresh(epoch, 10)]
    [1, 3, 5, 6, 7, 8, 9, 10]
    """
    stride = max(1, epochs // REFRESHES)
    early = epoch - 1 < epochs // 2 - 1
    return (epoch - 1) % (2 * stride if early else stride) == 0
