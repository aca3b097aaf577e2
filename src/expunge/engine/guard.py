"""Catches divergence, and keeps the weights from before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Guard:
    """Looks at every step's losses and gradient sums; keeps a copy of the last good weights.

    On the CPU each step is looked at before it is taken. On an accelerator looking means waiting
    for it, so steps are looked at ``every`` at a time.
    """

    def __init__(self, model: nn.Module, device: torch.device, every: int = 20) -> None:
        self.every = 1 if device.type == "cpu" else every
        self._live = [*model.parameters(), *model.buffers()]
        self._kept = [t.detach().clone() for t in self._live]
        self._bad: Tensor | None = None
        self._seen = 0

    @torch.no_grad()
    def passes(self, values: list[Tensor]) -> bool:
        """Whether all is finite so far, as far as has been looked."""
        bad = torch.stack([~v.isfinite().all().to(values[0].device) for v in values]).any()
        self._bad = bad if self._bad is None else self._bad | bad
        self._seen += 1
        if self._seen % self.every:
            return True
        return self.look()

    @torch.no_grad()
    def look(self) -> bool:
        """Look now, at the price of waiting for the device."""
        if self._bad is not None and bool(self._bad):
            return False
        self._bad = None
        for kept, live in zip(self._kept, self._live, strict=True):
            kept.copy_(live)
        return True

    @torch.no_grad()
    def restore(self) -> None:
        """Put the last good weights back into the model."""
        for kept, live in zip(self._kept, self._live, strict=True):
            live.copy_(kept)
