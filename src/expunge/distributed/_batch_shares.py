"""Which examples of a global batch each process takes: all of them, each once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.distributed._group import Group


class BatchShare(NamedTuple):
    """Examples ``start`` to ``stop`` of a global batch of ``total``."""

    start: int
    stop: int
    total: int
    last: bool = True
    """Whether this is the process's last micro-batch of that batch."""

    def parts(self, count: int) -> list[BatchShare]:
        """The micro-batches of this share, as ``Tensor.tensor_split`` cuts them."""
        edges = [self.start + edge for edge in _edges(self.stop - self.start, count)]
        return [
            BatchShare(edges[k], edges[k + 1], self.total, self.last and k + 1 == count)
            for k in range(count)
        ]


@dataclass(frozen=True)
class BatchDivision:
    """How batches are cut into ``parts`` for each of ``size`` processes; this one is ``rank``."""

    rank: int = 0
    size: int = 1
    parts: int = 1

    def share(self, total: int) -> BatchShare:
        """This process's share of a global batch of ``total`` examples."""
        if self.size == 1:
            return BatchShare(0, total, total)
        if total < self.size:
            raise InvalidInput(
                "A batch should have at least one example for every process. "
                f"(got {total} for {self.size} processes)"
            )
        parts = self.parts if total >= self.size * self.parts else 1
        edges = _edges(total, self.size * parts)
        return BatchShare(edges[self.rank * parts], edges[(self.rank + 1) * parts], total)

    def batch_count(self, examples: int, batch_size: int, least: int = 1) -> int:
        """Global batches per pass; a rest below ``least``, or the processes, joins the last one."""
        whole, rest = divmod(examples, batch_size)
        return max(whole + (rest >= max(least, self.size)), 1)


UNDIVIDED = BatchDivision()
"""One process takes all."""


def share_weight(share: BatchShare | None, size: int) -> float:
    """The factor of a loss over a share that makes the mean over ``size`` processes the global one.

    N·nᵣ/n; 1 where all shares are equal. It multiplies the loss rather than the gradient, since a
    synchronised BatchNorm mixes the losses of all processes in the backward pass.
    """
    return 1.0 if share is None else size * (share.stop - share.start) / share.total


def draw_share(
    group: Group,
    generator: torch.Generator,
    high: int,
    shape: torch.Size,
    share: BatchShare | None = None,
) -> Tensor:
    """Integers in 0..high-1 for this process's rows, however many processes share the work.

    Every process draws for all rows from the same random stream and takes its own, so that the
    streams stay in step. Without a ``share``, rows are counted in the order of the processes.
    """
    if group.size == 1:
        return torch.randint(high, shape, generator=generator)
    if share is None:
        counts = [int(count) for count in group.exchange(shape[0])]
        start = sum(counts[: group.rank])
        share = BatchShare(start, start + shape[0], sum(counts))
    stream = generator if share.last else generator.clone_state()
    draws = torch.randint(high, (share.total, *shape[1:]), generator=stream)
    return draws[share.start : share.stop]


def _edges(total: int, count: int) -> list[int]:
    """Where ``count`` pieces of ``total`` begin; sizes differ by at most one, the larger first."""
    size, more = divmod(total, count)
    return [k * size + min(k, more) for k in range(count + 1)]
