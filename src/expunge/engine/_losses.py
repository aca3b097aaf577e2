"""The losses of a step: one per micro-batch, weighted so that together they count as the batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import Tensor

from expunge._errors import InvalidInput
from expunge.data._batches import Batch
from expunge.distributed import Group
from expunge.engine._loss_weights import EQUAL_WEIGHTS, loss_weights, smallest_share, weigh
from expunge.methods import Method, Problem
from expunge.update import SampleMoments, Term, Update


@dataclass(frozen=True)
class StepLosses:
    """Computes the terms of the objective and of the constraint from two batches."""

    method: Method
    problem: Problem
    update: Update
    group: Group
    micro_batches: int

    def __call__(self, name: str, forget: Batch | None, retain: Batch) -> Iterator[Tensor | Term]:
        """``name`` is a method's ``objective`` or ``constraint``.

        A term is computed when it is requested: one graph is alive at a time.
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
        weights = loss_weights(self.group, self.method, name, forget, retain)
        if self.micro_batches > 1:
            terms = weigh_micro_batches(terms, self.method, name, forgotten, retained)
        elif sampled:
            weights = EQUAL_WEIGHTS  # its parts have equal weights, whatever their sizes
        for term in terms:
            yield weigh(term, weights)

    def _count(self, forget: Batch | None, retain: Batch) -> int:
        """The number of parts of either batch, so that no example of the larger one is left out."""
        processes = self.group.size
        least = [smallest_share(b, processes) for b in (forget, retain) if b is not None]
        return min(parts_of(self.update, self.micro_batches, processes), *least)


def parts_of(update: Update, micro_batches: int, processes: int = 1) -> int:
    """The number of parts that a process divides its share of a batch into.

    ``SampleMoments`` needs parts of the batch of all processes. If ``micro_batches`` gives more
    than it needs, it uses them all: they estimate the same variance more precisely.
    """
    moments = update.addon.statistics
    needed = moments.parts if isinstance(moments, SampleMoments) else 1
    return max(-(-needed // processes), micro_batches)


def weigh_micro_batches(
    terms: Iterator[Tensor | Term],
    method: Method,
    name: str,
    forget: Sequence[Batch | None],
    retain: Sequence[Batch],
) -> Iterator[Tensor | Term]:
    """``terms``, one per micro-batch, each with its weight K·nₖ/n, which is 1 on average."""
    over = method.objective_over if name == "objective" else "retain"
    saliency_weights = _shares(
        [0 if batch is None else method.size("saliency", batch) for batch in forget]
    )
    weights = _shares(
        [
            method.size(name, f if over == "forget" and f is not None else r)
            for f, r in zip(forget, retain, strict=True)
        ]
    )
    for term, weight, saliency_weight in zip(terms, weights, saliency_weights, strict=True):
        full = term if isinstance(term, Term) else Term(term)
        yield full._replace(weight=weight, saliency_weight=saliency_weight)


def _shares(sizes: Sequence[float]) -> list[float]:
    """Each size over their mean.

    >>> _shares([3, 3, 2])
    [1.125, 1.125, 0.75]
    """
    total = sum(sizes)
    return [len(sizes) * size / total if total else 1.0 for size in sizes]
