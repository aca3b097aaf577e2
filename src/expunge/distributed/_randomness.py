"""Random numbers that do not depend on how many processes share the work."""

from __future__ import annotations

import torch
from torch import Tensor

from expunge.distributed._batch_shares import Share
from expunge.distributed._group import Group


def draw_share(
    group: Group,
    generator: torch.Generator,
    high: int,
    shape: torch.Size,
    share: Share | None = None,
) -> Tensor:
    """Integers in 0..high-1 for this process's rows, from a stream that all processes have alike.

    All draw for all rows, and take their own: so the streams stay together. Without a ``share``,
    rows are counted in the order of the processes.
    """
    if not group:
        return torch.randint(high, shape, generator=generator)
    if share is None:
        counts = [int(count) for count in group.exchange(shape[0])]
        start = sum(counts[: group.rank])
        share = Share(start, start + shape[0], sum(counts))
    stream = generator if share.last else generator.clone_state()
    drawn = torch.randint(high, (share.total, *shape[1:]), generator=stream)
    return drawn[share.start : share.stop]
