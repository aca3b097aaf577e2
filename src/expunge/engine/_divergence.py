"""Catches divergence, and keeps the weights from before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class DivergenceGuard:
    """Looks at every step's losses and gradient sums; keeps a copy of the last good weights.

    Good are weights whose losses and gradients were finite. So the weights kept are those from
    before the step that led to a non-finite loss.

    On the CPU each step is looked at before it is taken. On an accelerator looking means waiting
    for it, so steps are looked at ``every`` at a time.
    """

    def __init__(self, model: nn.Module, device: torch.device, every: int = 20) -> None:
        self.every = 1 if device.type == "cpu" else every
        self._weights = list(model.parameters())
        self._live = [*self._weights, *model.buffers()]
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
    def weights_are_finite(self) -> bool:
        """Whether the weights are, after a step whose outcome no loss has shown yet."""
        return all(bool(w.isfinite().all()) for w in self._weights)

    @torch.no_grad()
    def restore(self) -> None:
        """Put the last good weights back into the model."""
        for kept, live in zip(self._kept, self._live, strict=True):
            live.copy_(kept)
