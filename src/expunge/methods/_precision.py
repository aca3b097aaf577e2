"""What a model computes in: float32, or half of it under autocast."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

HALVES = (torch.bfloat16, torch.float16)


def cast_to(precision: torch.dtype, device: torch.device) -> AbstractContextManager[Any]:
    """Within, matrix products and convolutions on ``device`` are computed in ``precision``."""
    if precision == torch.float32:
        return nullcontext()
    return torch.autocast(device.type, dtype=precision)


def widened(logits: Tensor) -> Tensor:
    """Half-precision logits in float32, for the losses; others as they are."""
    half = isinstance(logits, Tensor) and logits.dtype in HALVES
    return logits.float() if half else logits
