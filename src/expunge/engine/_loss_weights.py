"""The weights of a process's losses, where it has more or fewer examples than others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from expunge.data._batches import Batch
from expunge.distributed._batch_shares import share_weight
from expunge.distributed._group import Group
from expunge.methods import Method
from expunge.methods._tokens import is_token_labels
from expunge.update._gradients import Term


class LossWeights(NamedTuple):
    """N·nᵣ/n of the batch that a loss is a mean over, and of the forget batch."""

    loss: float
    saliency: float


EQUAL_WEIGHTS = LossWeights(1.0, 1.0)
"""All processes have as many examples."""


def loss_weights(
    group: Group, method: Method, name: str, forget: Batch | None, retain: Batch
) -> LossWeights:
    """The weights of this process's ``objective`` or ``constraint``, and of its saliency.

    Where a loss is a mean over something other than examples, such as labelled tokens
    (``Method.size``), the processes exchange how many they have.
    """
    if not group:
        return EQUAL_WEIGHTS
    over = method.objective_over if name == "objective" else "retain"
    counted = retain if over == "retain" or forget is None else forget
    ranked = retain if forget is None else forget
    if type(method).size is Method.size and not is_token_labels(counted.targets):
        return LossWeights(
            share_weight(counted.share, group.size), share_weight(ranked.share, group.size)
        )
    return _exchanged(group, method.size(name, counted), method.size("saliency", ranked))


def weights_by_size(
    group: Group, method: Method, name: str, forget: Sequence[Batch], retain: Sequence[Batch]
) -> LossWeights:
    """As :func:`loss_weights`, for the micro-batches of a step, whatever their losses average."""
    if not group:
        return EQUAL_WEIGHTS
    over = method.objective_over if name == "objective" else "retain"
    counted = forget if over == "forget" else retain
    sizes = sum(method.size(name, batch) for batch in counted)
    return _exchanged(group, sizes, sum(method.size("saliency", batch) for batch in forget))


def weigh_reduced(
    terms: Iterator[Tensor | Term],
    group: Group,
    method: Method,
    name: str,
    forget: Sequence[Batch],
    retain: Sequence[Batch],
) -> Iterator[Term]:
    """Terms, one per micro-batch, whose gradients FSDP averages over the processes one by one.

    What weighs a gradient after that has to be the same everywhere. So each loss is multiplied by
    the process's share of its micro-batch, and the micro-batches count by their sizes in all
    processes together.
    """
    over = method.objective_over if name == "objective" else "retain"
    counted = forget if over == "forget" else retain
    sizes = [
        [method.size(name, batch) for batch in counted],
        [method.size("saliency", batch) for batch in forget],
    ]
    here = torch.tensor(sizes, dtype=torch.float64, device=group.device)
    total = group.sum(here.clone()).clamp(min=1.0)
    factors = (group.size * here / total).tolist()
    weights = (len(forget) * total / total.sum(dim=1, keepdim=True)).tolist()
    for k, term in enumerate(terms):
        full = term if isinstance(term, Term) else Term(term)
        yield Term(
            full.loss * factors[0][k],
            None if full.saliency is None else full.saliency * factors[1][k],
            weights[0][k],
            weights[1][k],
        )


def _exchanged(group: Group, *sizes: float) -> LossWeights:
    """This process's share of each size, times the number of processes; 1 where all have none."""
    here = torch.tensor(sizes, dtype=torch.float64, device=group.device)
    shares = (group.size * here / group.sum(here.clone())).tolist()
    return LossWeights(*(1.0 if share != share else share for share in shares))


def weigh(loss: Tensor | Term, weights: LossWeights) -> Tensor | Term:
    """The loss times its weight, before anything is differentiated."""
    if weights == EQUAL_WEIGHTS:
        return loss
    term = loss if isinstance(loss, Term) else Term(loss)
    return term._replace(
        loss=term.loss * weights.loss,
        saliency=None if term.saliency is None else term.saliency * weights.saliency,
        weight=term.weight * weights.loss,
    )


def smallest_share(batch: Batch, size: int) -> int:
    """The number of examples of a batch in the smallest share of ``size`` processes."""
    return len(batch.targets) if batch.share is None else batch.share.total // size
