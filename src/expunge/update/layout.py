"""Flat views of parameter-shaped tensors, whatever their memory format."""

from __future__ import annotations

import torch
from torch import Tensor


def moment_dtype(dtype: torch.dtype) -> torch.dtype:
    """Statistics are kept in float32, or in float64 beside float64 parameters."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def strides_of(parameter: Tensor) -> tuple[int, ...]:
    """The strides of a dense tensor laid out like ``parameter`` (channels-last stays so)."""
    return torch.empty_like(parameter, device="meta").stride()


def laid_out(gradient: Tensor, strides: tuple[int, ...]) -> Tensor:
    """``gradient`` itself if dense with these strides, otherwise a copy that is."""
    if gradient.stride() == strides and gradient.layout is torch.strided:
        return gradient
    if gradient.layout is not torch.strided:
        gradient = gradient.to_dense()
    copy = torch.empty_strided(
        gradient.shape, strides, dtype=gradient.dtype, device=gradient.device
    )
    return copy.copy_(gradient)


def flat(tensor: Tensor) -> Tensor:
    """A dense tensor as one dimension in memory order: a view, never a copy.

    >>> x = torch.arange(12.0).view(1, 3, 2, 2).to(memory_format=torch.channels_last)
    >>> flat(x)[:3]
    tensor([0., 4., 8.])
    """
    return tensor.detach().as_strided((tensor.numel(),), (1,), tensor.storage_offset())
