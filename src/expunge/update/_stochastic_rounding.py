"""Rounding to bfloat16 that is right on average: for statistics that move by little at a time."""

from __future__ import annotations

import torch
from torch import Tensor

SALTS = 1 << 24
"""Salts are whole numbers below this, which float32 holds exactly."""


def salt_of(step: int) -> float:
    """A number that decides the roundings of one step, different from step to step."""
    return float((step * 0x9E3779B1) % SALTS)


def round_stochastically(values: Tensor, salt: float | Tensor) -> Tensor:
    """Non-negative float32 ``values`` to bfloat16, up or down with the chance that makes it fair.

    A moment with decay 0.999 moves by a thousandth per step where bfloat16 has steps of four
    thousandths: rounded to the nearest it would stand still. Here ``x`` between the neighbours
    ``a < b`` becomes ``b`` with probability (x - a)/(b - a), so that the expectation is x.

    The chance comes from a hash of the value's own bits and the salt, not from a random stream: the
    same in any order, on any device, cut in any way, and nothing to save.

    >>> x = torch.full((10_000,), 1.001).mul_(torch.linspace(1, 1.0001, 10_000))
    >>> mean = round_stochastically(x, salt_of(1)).double().mean()
    >>> bool((mean - x.double().mean()).abs() < 1e-4)
    True
    """
    bits = values.view(torch.int32)
    mixed = bits + (salt.to(torch.int32) if isinstance(salt, Tensor) else int(salt))
    for shift, factor in ((16, 0x7FEB352D), (15, 0x846CA68B - (1 << 32))):
        mixed = (mixed ^ (mixed >> shift)) * factor
    chance = (mixed >> 16) & 0xFFFF
    return ((bits + chance) & -0x10000).view(torch.float32).to(torch.bfloat16)
