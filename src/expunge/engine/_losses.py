"""The losses of a step: one a micro-batch, each with what it counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor

from expunge._errors import InvalidInput
from expunge.data._batches import Batch
from expunge.distributed import Group
from expunge.engine._loss_weights import EVEN, common_size, weigh, weights_of
from expunge.engine._micro_batches import parts_of, weighted
from expunge.methods import Method, Problem
from expunge.update import SampleMoments, Term, Update


@dataclass(frozen=True)
class Losses:
    """Makes the terms of the objective and of the constraint from two batches."""

    method: Method
    problem: Problem
    update: Update
    group: Group
    micro_batches: int

    def __call__(self, name: str, forget: Batch | None, retain: Batch) -> Iterator[Tensor | Term]:
        """``name`` is a method's ``objective`` or ``constraint``.

        A term is made when it is asked for: one graph is alive at a time.
        """
        sampled = isinstance(self.update.addon.statistics, SampleMoments)
        count = self._count(forget, retain)
        if sampled and self.method.constrained and count * self.group.size < 2:
            raise InvalidInput(
                "The moments `sample` need batches of at least 2 examples. (got one of 1; choose "
                "another batch size, or the moments `adam`)"
            )
        forgotten = [None] * count if forget is None else forget.parts(count)
        retained = retain.parts(count)
        loss = getattr(self.method, name)
        pairs = zip(forgotten, retained, strict=True)
        terms: Iterator[Tensor | Term] = (loss(self.problem, f, r) for f, r in pairs)
        weights = weights_of(self.group, self.method, name, forget, retain)
        if self.micro_batches > 1:
            terms = weighted(terms, self.method, name, forgotten, retained)
        elif sampled:
            weights = EVEN  # its parts count alike, whatever their sizes
        for term in terms:
            yield weigh(term, weights)

    def _count(self, forget: Batch | None, retain: Batch) -> int:
        """As many parts of either batch, so that no example of the larger one is left out."""
        processes = self.group.size
        least = [common_size(b, processes) for b in (forget, retain) if b is not None]
        return min(parts_of(self.update, self.micro_batches, processes), *least)
