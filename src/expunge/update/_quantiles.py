"""Exact quantiles of |x| in a tensor."""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

Interpolation = Literal["lower", "midpoint", "linear"]
"""What a quantile between two values is: the lower, their mean, or in proportion to its place."""


def absolute_quantile(
    values: Tensor, quantile: float = 0.5, interpolation: Interpolation = "lower"
) -> Tensor:
    """The quantile of |x| over a whole tensor, which is not empty.

    >>> x = torch.tensor([3.0, -1.0, 2.0, -4.0])
    >>> [float(absolute_quantile(x, 0.5, rule)) for rule in ("lower", "midpoint", "linear")]
    [2.0, 2.5, 2.5]
    >>> round(float(absolute_quantile(x, 0.9, "linear")), 4)
    3.7
    """
    sizes = values.abs().flatten()
    if quantile == 0.5 and interpolation == "lower":
        return sizes.median()
    place = quantile * (sizes.numel() - 1)
    low, high = (sizes.kthvalue(k + 1).values for k in (math.floor(place), math.ceil(place)))
    share = torch.tensor(place - math.floor(place), dtype=torch.float64)
    return _between(low, high, share.to(sizes.device), interpolation)


def _between(low: Tensor, high: Tensor, share: Tensor, interpolation: Interpolation) -> Tensor:
    """A value between two neighbours, ``share`` of the way; the lower where there is no way."""
    if interpolation == "lower":
        return low
    weight = torch.where(share > 0, 0.5, 0.0) if interpolation == "midpoint" else share
    return torch.where(weight > 0, torch.lerp(low, high, weight.to(low.dtype)), low)
