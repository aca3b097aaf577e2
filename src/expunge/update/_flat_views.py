"""Flat views of parameter-shaped tensors, whatever their memory format."""

from __future__ import annotations

import torch
from torch import Tensor


def moment_dtype(dtype: torch.dtype) -> torch.dtype:
    """Statistics are kept in float32, or in float64 beside float64 parameters."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def laid_out(tensor: Tensor, like: Tensor) -> Tensor:
    """``tensor`` itself if it is dense in the memory order of ``like``, else a copy that is.

    >>> image = torch.zeros(1, 3, 2, 2).to(memory_format=torch.channels_last)
    >>> laid_out(torch.ones(1, 3, 2, 2), image).stride()
    (12, 1, 6, 3)
    """
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if tensor.is_contiguous() and like.is_contiguous():
        return tensor
    strides = _strides_of(like)
    if _same_order(tensor, strides):
        return tensor
    copy = torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def flat(tensor: Tensor) -> Tensor:
    """A dense tensor as one dimension in memory order: a view, never a copy.

    >>> x = torch.arange(12.0).view(1, 3, 2, 2).to(memory_format=torch.channels_last)
    >>> flat(x)[:3]
    tensor([0., 4., 8.])
    """
    tensor = tensor.detach()
    if tensor.is_contiguous():
        return tensor.view(-1)
    return tensor.as_strided((tensor.numel(),), (1,), tensor.storage_offset())


def flatten(tensors: list[Tensor]) -> Tensor:
    """All tensors in one vector, a copy, on the first one's device, in float32 at least."""
    dtype = torch.float32
    for tensor in tensors:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return torch.cat([flat(t).to(tensors[0].device, dtype) for t in tensors])


def _strides_of(tensor: Tensor) -> tuple[int, ...]:
    """The strides of a dense tensor laid out like ``tensor`` (channels-last stays so)."""
    return torch.empty_like(tensor, device="meta").stride()


def _same_order(tensor: Tensor, strides: tuple[int, ...]) -> bool:
    """Whether the strides agree, wherever a dimension is long enough for its stride to matter."""
    pairs = zip(tensor.shape, tensor.stride(), strides, strict=True)
    return all(size == 1 or actual == wanted for size, actual, wanted in pairs)
