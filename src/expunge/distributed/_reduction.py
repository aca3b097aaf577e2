"""The mean gradient over all processes, taken before anything non-linear.

A weight such as f(ĝ_U, ĝ_C) of the mean gradients is not the mean of the weights: if each process
weighted its own noisy gradients and reduced afterwards, that would be another algorithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.distributed._group import Group

if TYPE_CHECKING:
    from expunge.update import LossGradient


CAPACITY = 25 * 2**20
"""Bytes per bucket; a larger tensor has one to itself."""


def start_reduction(
    group: Group, gradient: LossGradient, params: Sequence[Tensor]
) -> Callable[[], LossGradient]:
    """Begin to average a gradient over the processes; call what is returned for the result.

    Gradients, saliency gradients and losses are averaged; a process with a larger share of the
    batch has weighted its losses (:func:`share_weight`). Squared deviations (``squares``) combine
    by Σₖ(ĝₖ - ĝ)² = Σᵣ [Sᵣ + K(ĝᵣ - ĝ)²], over processes r of K micro-batches each, which needs ĝ
    first: a second round. A parameter that some processes do not reach counts as zero there; one
    that no process reaches stays without a gradient, and DTensors are left alone.
    """
    unsharded = [k for k, p in enumerate(params) if not hasattr(p, "device_mesh")]
    like = [params[k] for k in unsharded]
    means = [gradient.gradients[k] for k in unsharded]
    buckets = fill(means, like, scale=1.0 / group.size)
    saliency: Buckets | None = None
    if gradient.saliency_gradient is not None:
        own = [gradient.saliency_gradient[k] for k in unsharded]
        saliency = fill(own, like, scale=1.0 / group.size)
    summary = _summary(gradient, means)
    flat = [*buckets.flat, *(saliency.flat if saliency else []), summary]
    waits = [group.start_sum(tensor) for tensor in flat]

    def finish() -> LossGradient:
        for wait in waits:
            wait()
        # Reading the flags makes an accelerator wait: do so only where a gradient is missing here.
        views: list[Tensor | None] = [*buckets.views]
        if any(mean is None for mean in means):
            counts = summary[3:].tolist()
            views = [view if n else None for view, n in zip(views, counts, strict=True)]
        result = gradient._replace(
            gradients=_put(gradient.gradients, unsharded, views),
            micro_batches=gradient.micro_batches * group.size,
            loss=(summary[0] / group.size).to(gradient.loss.dtype),
        )
        if saliency is not None and gradient.saliency_gradient is not None:
            mean = _put(gradient.saliency_gradient, unsharded, saliency.views)
            result = result._replace(saliency_gradient=mean)
        if gradient.squares is not None:
            squares = _combine_squares(group, gradient, gradient.squares, unsharded, buckets.views)
            _check_micro_batches(group, summary)
            result = result._replace(squares=squares)
        return result

    return finish


def _summary(gradient: LossGradient, means: Sequence[Tensor | None]) -> Tensor:
    """Loss, K, K², and which parameters have a gradient here."""
    flags = [float(mean is not None) for mean in means]
    count = gradient.micro_batches
    rest = torch.tensor([count, count**2, *flags], dtype=torch.float64)
    loss = gradient.loss.detach().double().reshape(1)
    return torch.cat([loss, rest.to(loss.device, non_blocking=True)])


def _put(old: Sequence[Any], unsharded: list[int], views: Sequence[Tensor | None]) -> list[Any]:
    """``old`` with ``views`` in the places of the parameters that are not sharded."""
    new = dict(enumerate(old)) | dict(zip(unsharded, views, strict=True))
    return list(new.values())


@torch.no_grad()
def _combine_squares(
    group: Group,
    gradient: LossGradient,
    squares: list[Tensor],
    unsharded: list[int],
    mean: Sequence[Tensor],
) -> list[Tensor]:
    """Σᵣ [Sᵣ + wᵣK(ĝᵣ - ĝ)²]; gradients here are wᵣ times ĝᵣ, as the losses were."""
    weight = gradient.weight
    for k, everywhere in zip(unsharded, mean, strict=True):
        deviation = everywhere.to(squares[k].dtype)
        here = gradient.gradients[k]
        if here is not None:
            deviation = deviation - here / weight
        squares[k].div_(weight**2).addcmul_(
            deviation, deviation, value=weight * float(gradient.micro_batches)
        )
    buckets = fill([squares[k] for k in unsharded], [squares[k] for k in unsharded])
    for wait in [group.start_sum(tensor) for tensor in buckets.flat]:
        wait()
    return _put(squares, unsharded, buckets.views)


def _check_micro_batches(group: Group, summary: Tensor) -> None:
    """Every process's mean counts alike, so all should have as many micro-batches."""
    total, squares = summary[1].item(), summary[2].item()
    if group.size * squares != total**2:
        raise InvalidInput(
            "With the moments `sample`, every process should bring as many micro-batches as the "
            f"others. (got {int(total)} over {group.size} processes)"
        )


class Buckets(NamedTuple):
    """The flat tensors, and each original as a view into one of them, in the layout asked for."""

    flat: list[Tensor]
    views: list[Tensor]


@torch.no_grad()
def fill(
    tensors: Sequence[Tensor | None],
    like: Sequence[Tensor],
    *,
    scale: float = 1.0,
    capacity: int = CAPACITY,
) -> Buckets:
    """Copy ``scale`` times ``tensors`` into buckets; a missing one counts as zeros."""
    groups: dict[tuple[torch.dtype, torch.device], list[list[int]]] = {}
    for k, reference in enumerate(like):
        lists = groups.setdefault((reference.dtype, reference.device), [[]])
        held = sum(like[j].nbytes for j in lists[-1])
        if lists[-1] and held + reference.nbytes > capacity:
            lists.append([])
        lists[-1].append(k)
    flat: list[Tensor] = []
    views: dict[int, Tensor] = {}
    for (dtype, device), lists in groups.items():
        for members in lists:
            bucket = torch.empty(sum(like[k].numel() for k in members), dtype=dtype, device=device)
            offset = 0
            for k in members:
                strides = torch.empty_like(like[k], device="meta").stride()
                views[k] = bucket.as_strided(like[k].shape, strides, offset)
                offset += like[k].numel()
                tensor = tensors[k]
                if tensor is None:
                    views[k].zero_()
                else:
                    torch.mul(tensor, scale, out=views[k])
            flat.append(bucket)
    return Buckets(flat, [views[k] for k in range(len(like))])
