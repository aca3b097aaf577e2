"""Buckets: many tensors in a few flat ones, so that a reduction is a handful of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

CAPACITY = 25 * 2**20
"""Bytes per bucket; a larger tensor has one to itself."""


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
    """Copy ``scale`` times ``tensors`` into buckets; a missing one counts as zeros.

    Sizes, types and memory order are those of ``like``, which is the same in every process,
    whichever gradients it has: so the buckets match.
    """
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
                views[k] = _view(bucket, offset, like[k])
                offset += like[k].numel()
                _copy(views[k], tensors[k], scale)
            flat.append(bucket)
    return Buckets(flat, [views[k] for k in range(len(like))])


def _view(bucket: Tensor, offset: int, like: Tensor) -> Tensor:
    strides = torch.empty_like(like, device="meta").stride()
    return bucket.as_strided(like.shape, strides, offset)


def _copy(view: Tensor, tensor: Tensor | None, scale: float) -> None:
    if tensor is None:
        view.zero_()
    elif scale == 1.0:
        view.copy_(tensor)
    else:
        torch.mul(tensor, scale, out=view)
