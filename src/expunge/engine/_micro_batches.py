"""Micro-batches: a batch in parts, one graph alive at a time, that together count as the whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from expunge.data._batches import Batch
from expunge.methods import Method
from expunge.update import SampleMoments, Term, Update


def parts_of(update: Update, micro_batches: int, processes: int = 1) -> int:
    """How many parts a process takes its share of a batch in.

    ``SampleMoments`` looks at parts of the batch of all processes. Asked for more than it needs, it
    takes the more: the variance of the batch's mean is the same quantity, better known.
    """
    moments = update.addon.statistics
    needed = moments.parts if isinstance(moments, SampleMoments) else 1
    return max(-(-needed // processes), micro_batches)


def weighted(
    terms: Iterator[Tensor | Term],
    method: Method,
    name: str,
    forget: Sequence[Batch | None],
    retain: Sequence[Batch],
) -> Iterator[Tensor | Term]:
    """``terms``, one a micro-batch, each with what it counts: K·nₖ/n, which is 1 on average."""
    over = method.objective_over if name == "objective" else "retain"
    ranked = _shares([0 if batch is None else method.size("saliency", batch) for batch in forget])
    counted = _shares(
        [
            method.size(name, f if over == "forget" and f is not None else r)
            for f, r in zip(forget, retain, strict=True)
        ]
    )
    for term, weight, rank in zip(terms, counted, ranked, strict=True):
        made = term if isinstance(term, Term) else Term(term)
        yield made._replace(weight=weight, saliency_weight=rank)


def _shares(sizes: Sequence[float]) -> list[float]:
    """Each size over their mean.

    >>> _shares([3, 3, 2])
    [1.125, 1.125, 0.75]
    """
    total = sum(sizes)
    return [len(sizes) * size / total if total else 1.0 for size in sizes]
