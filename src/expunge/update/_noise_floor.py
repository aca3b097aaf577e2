"""The level of rounding in a gradient: what lies below it has no sign and no rank."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

ROUNDINGS = 8
"""Entries below this many roundings of a gradient's largest entry count as zero."""


def noise_level(dtype: torch.dtype) -> float:
    """τ: the smallest part of the largest entry of a gradient that is more than rounding."""
    return ROUNDINGS * torch.finfo(dtype).eps


def largest_entry(gradients: Sequence[Tensor], like: Tensor) -> Tensor:
    """The largest |x| in all of ``gradients``, a scalar of the device and type of ``like``."""
    largest = torch.zeros_like(like)
    for gradient in gradients:
        if gradient.numel():
            lowest, highest = torch.aminmax(gradient)  # many times faster than a norm
            entry = torch.maximum(highest, -lowest)
            largest = torch.maximum(largest, entry.to(like.device, like.dtype))
    return largest


def balance_of(largest_u: Tensor, largest_c: Tensor) -> Tensor:
    """‖ĝ_C‖∞/‖ĝ_U‖∞, which makes ĝ_U/ĝ_C a ratio of gradients of one size.

    Infinite where one gradient as a whole is rounding beside the other: its loss is at a stationary
    point, and has nothing to disagree with.
    """
    level = noise_level(largest_u.dtype)
    stationary = torch.minimum(largest_u, largest_c) <= level * torch.maximum(largest_u, largest_c)
    return torch.where(stationary, torch.inf, largest_c / largest_u)


def agree_in_sign(objective: Tensor, constraint: Tensor, balance: Tensor | None) -> Tensor:
    """1 where both gradients have the same sign and neither is rounding beside the other, else 0.

    Relative to the largest entries of their gradients, which ``balance`` tells, neither may be
    below τ times the other. Where one loss is at a stationary point, 1 everywhere. Without a
    ``balance``, by the signs alone.
    """
    if balance is None:
        return same_sign(objective, constraint)
    level = noise_level(objective.dtype)
    stationary = is_stationary(balance)
    # Less τ times the other, a gradient that is rounding beside the other has its opposite sign.
    scaled = objective * balance.masked_fill(stationary, 0.0)
    agree = same_sign(
        torch.sub(scaled, constraint, alpha=level), torch.sub(constraint, scaled, alpha=level)
    )
    return torch.maximum(agree, stationary.to(agree.dtype))


def comparable_product(objective: Tensor, constraint: Tensor, balance: Tensor) -> Tensor:
    """ĝ_U·ĝ_C where neither is rounding beside the other, as for :func:`agree_in_sign`; else 0."""
    level = noise_level(objective.dtype)
    scaled = objective.abs() * balance
    size = constraint.abs()
    both = (scaled > level * size) & (size > level * scaled) & ~is_stationary(balance)
    return torch.where(both, objective * constraint, 0.0)


def is_stationary(balance: Tensor) -> Tensor:
    """Whether one of the two losses is at a stationary point, by their ``balance``."""
    return balance == torch.inf


def same_sign(a: Tensor, b: Tensor) -> Tensor:
    """1 where a·b > 0, else 0; by signs, since the product of two tiny numbers is zero."""
    return torch.sign(a).mul_(torch.sign(b)).clamp_(min=0.0)
