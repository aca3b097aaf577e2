"""The gradients of all processes made one, before anything non-linear is done with them.

A weight such as f(ĝ_U, ĝ_C) of the mean gradients is not the mean of the weights: each process
weighing its own noisy gradients, and reducing afterwards, would be another algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.distributed._buckets import Buckets, fill
from expunge.distributed._group import Group

if TYPE_CHECKING:
    from expunge.update._gradients import Gathered


def start_reduction(
    group: Group, gathered: Gathered, params: Sequence[Tensor]
) -> Callable[[], Gathered]:
    """Begin to average a gradient over the processes; call the answer for the result.

    Between the two the buckets travel in the background: the objective's while the constraint is
    computed. The mean is over processes, plainly: a process whose piece of the batch is larger than
    others' says so in its losses, see :func:`expunge.distributed._batch_shares.weight`.

    Averaged are gradients, saliency gradients and losses. Squared deviations (``spread``) combine
    by Σₖ(ĝₖ - ĝ)² = Σᵣ [Sᵣ + K(ĝᵣ - ĝ)²], over processes r of K micro-batches each, which needs ĝ
    first: a second round. A parameter that some processes do not reach counts as zero there; one
    that none reaches stays without a gradient. Parameters that are sharded already (DTensors) are
    left to whoever shards them.
    """
    if not group:
        return lambda: gathered
    own = [k for k, p in enumerate(params) if not hasattr(p, "device_mesh")]
    like = [params[k] for k in own]
    means = [gathered.gradients[k] for k in own]
    buckets = fill(means, like, scale=1.0 / group.size)
    ranking: Buckets | None = None
    if gathered.salience is not None:
        ranking = fill([gathered.salience[k] for k in own], like, scale=1.0 / group.size)
    facts = _facts(gathered, means)
    flat = [*buckets.flat, *(ranking.flat if ranking else []), facts]
    waits = [group.start_sum(tensor) for tensor in flat]

    def finish() -> Gathered:
        for wait in waits:
            wait()
        # Reading makes an accelerator wait, so only where this process has something to learn.
        reached = [True] * len(own)
        if any(mean is None for mean in means):
            reached = (facts[3:] > 0).tolist()
        result = gathered._replace(
            gradients=_put(gathered.gradients, own, buckets.views, reached),
            parts=gathered.parts * group.size,
            loss=(facts[0] / group.size).to(gathered.loss.dtype),
        )
        if ranking is not None and gathered.salience is not None:
            salience = _put(gathered.salience, own, ranking.views, [True] * len(own))
            result = result._replace(salience=salience)
        if gathered.spread is not None:
            spread = _spread(group, gathered, gathered.spread, own, buckets.views)
            _check_parts(group, facts)
            result = result._replace(spread=spread)
        return result

    return finish


def _facts(gathered: Gathered, means: Sequence[Tensor | None]) -> Tensor:
    """Loss, K, K², and which parameters have a gradient here."""
    flags = [float(mean is not None) for mean in means]
    rest = torch.tensor([gathered.parts, gathered.parts**2, *flags], dtype=torch.float64)
    loss = gathered.loss.detach().double().reshape(1)
    return torch.cat([loss, rest.to(loss.device, non_blocking=True)])


def _put(
    old: Sequence[Tensor | None], own: list[int], views: list[Tensor], reached: list[bool]
) -> list[Tensor | None]:
    new = list(old)
    for k, view, there in zip(own, views, reached, strict=True):
        new[k] = view if there else None
    return new


@torch.no_grad()
def _spread(
    group: Group,
    gathered: Gathered,
    squares: list[Tensor],
    own: list[int],
    mean: Sequence[Tensor],
) -> list[Tensor]:
    """Σᵣ [Sᵣ + wᵣK(ĝᵣ - ĝ)²]; gradients here are wᵣ times ĝᵣ, as the losses were."""
    weight = gathered.weight
    for k, everywhere in zip(own, mean, strict=True):
        deviation = everywhere.to(squares[k].dtype)
        here = gathered.gradients[k]
        if here is not None:
            deviation = deviation - here / weight
        squares[k].div_(weight**2).addcmul_(
            deviation, deviation, value=weight * float(gathered.parts)
        )
    buckets = fill([squares[k] for k in own], [squares[k] for k in own])
    for wait in [group.start_sum(tensor) for tensor in buckets.flat]:
        wait()
    combined = list(squares)
    for k, view in zip(own, buckets.views, strict=True):
        combined[k] = view
    return combined


def _check_parts(group: Group, facts: Tensor) -> None:
    """Each process's mean counts alike, so each should be of as many micro-batches."""
    total, squares = facts[1].item(), facts[2].item()
    if group.size * squares != total**2:
        raise InvalidInput(
            "With the moments `sample`, every process should bring as many micro-batches as the "
            f"others. (got {int(total)} over {group.size} processes)"
        )
