"""A small model with two losses, for the tests of the update."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def small_model(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def batch(seed: int, size: int = 12) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 6, generator=generator)
    return x, torch.randint(0, 3, (size,), generator=generator)


def losses(model: nn.Module, step: int = 0) -> tuple[Tensor, Tensor]:
    """U = -L on one batch, C = L on another."""
    (x_u, y_u), (x_c, y_c) = batch(2 * step), batch(2 * step + 1)
    return -F.cross_entropy(model(x_u), y_u), F.cross_entropy(model(x_c), y_c)


def gradients(loss: Tensor, params) -> list[Tensor]:
    return list(torch.autograd.grad(loss, list(params)))
