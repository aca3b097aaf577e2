"""What a process's losses count, where it has more or fewer examples than others."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from expunge.data._batches import Batch
from expunge.distributed._batch_shares import weight
from expunge.distributed._group import Group
from expunge.methods import Method
from expunge.update._gradients import Term


class Weights(NamedTuple):
    """N·nᵣ/n of the batch that a loss is over, and of the forget batch."""

    loss: float
    saliency: float


EVEN = Weights(1.0, 1.0)
"""All processes count alike."""


def weights_of(
    group: Group, method: Method, name: str, forget: Batch | None, retain: Batch
) -> Weights:
    """What this process's ``objective`` or ``constraint``, and its saliency, count.

    Where a loss is a mean over something else than examples (``Method.size``), the processes tell
    each other how many they have.
    """
    if not group:
        return EVEN
    over = method.objective_over if name == "objective" else "retain"
    counted = retain if over == "retain" or forget is None else forget
    ranked = retain if forget is None else forget
    if type(method).size is Method.size:
        return Weights(weight(counted.share, group.size), weight(ranked.share, group.size))
    sizes = [method.size(name, counted), method.size("saliency", ranked)]
    here = torch.tensor(sizes, dtype=torch.float64, device=group.device)
    shares = (group.size * here / group.sum(here.clone())).tolist()
    return Weights(*(1.0 if share != share else share for share in shares))


def weigh(found: Tensor | Term, weights: Weights) -> Tensor | Term:
    """The loss times its weight, before anything is differentiated."""
    if weights == EVEN:
        return found
    term = found if isinstance(found, Term) else Term(found)
    return term._replace(
        loss=term.loss * weights.loss,
        saliency=None if term.saliency is None else term.saliency * weights.saliency,
        weight=term.weight * weights.loss,
    )


def common_size(batch: Batch, size: int) -> int:
    """How many examples of a batch every one of ``size`` processes has at least."""
    return len(batch.targets) if batch.share is None else batch.share.total // size
