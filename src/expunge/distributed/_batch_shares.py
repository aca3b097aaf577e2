"""Which examples of a global batch each process takes: all of them, each once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from expunge._errors import InvalidInput


class Share(NamedTuple):
    """Examples ``start`` to ``stop`` of a global batch of ``total``."""

    start: int
    stop: int
    total: int
    last: bool = True
    """Whether this is the process's last micro-batch of that batch."""

    def parts(self, count: int) -> list[Share]:
        """The micro-batches of this share, as ``Tensor.tensor_split`` cuts them."""
        edges = [self.start + edge for edge in _edges(self.stop - self.start, count)]
        return [
            Share(edges[k], edges[k + 1], self.total, self.last and k + 1 == count)
            for k in range(count)
        ]


@dataclass(frozen=True)
class Cut:
    """How every global batch is divided among ``size`` processes; this one is ``rank``.

    Each takes a stretch of whole micro-batches, ``parts`` of them; sizes of micro-batches differ by
    one at most, and are those that a single process of ``size · parts`` micro-batches would make.

    >>> [Cut(rank, 2).share(5) for rank in range(2)]
    [Share(start=0, stop=3, total=5, last=True), Share(start=3, stop=5, total=5, last=True)]
    """

    rank: int = 0
    size: int = 1
    parts: int = 1

    def share(self, total: int) -> Share:
        """This process's share of a global batch of ``total`` examples."""
        if total < self.size:
            raise InvalidInput(
                "A batch should have an example for every process at least. "
                f"(got {total} for {self.size} processes)"
            )
        parts = self.parts if total >= self.size * self.parts else 1
        edges = _edges(total, self.size * parts)
        return Share(edges[self.rank * parts], edges[(self.rank + 1) * parts], total)

    def batches(self, examples: int, batch_size: int, least: int = 1) -> int:
        """Global batches per pass; a remainder below ``least`` or ``size`` joins the last."""
        whole, rest = divmod(examples, batch_size)
        return max(whole + (rest >= max(least, self.size)), 1)


WHOLE = Cut()
"""One process takes all."""


def weight(share: Share | None, size: int) -> float:
    """What a mean over a share counts, so that the mean over ``size`` processes is the global one.

    N·nᵣ/n; 1 where all shares are equal. It multiplies the loss rather than the gradient, since a
    synchronised BatchNorm mixes the losses of all processes on the way back.
    """
    return 1.0 if share is None else size * (share.stop - share.start) / share.total


def _edges(total: int, count: int) -> list[int]:
    """Where ``count`` pieces of sizes that differ by one at most, the larger first, begin."""
    size, more = divmod(total, count)
    return [k * size + min(k, more) for k in range(count + 1)]
