"""Detect divergence, and keep the weights from before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from expunge._errors import Diverged


def diverged(where: str) -> Diverged:
    """The error of a run that diverged ``where``: "at step 3: a loss"."""
    return Diverged(
        f"Diverged {where} is not finite. The model holds the last good weights. Lower the "
        "learning rate or `alpha`, or take fewer epochs; gradient ascent has no lower bound to "
        "stop at."
    )


class DivergenceGuard:
    """Checks the losses and gradient sums of every step; keeps a copy of the last good weights.

    Weights are good if their losses and gradients were finite: those from before the step that led
    to a non-finite loss. Frozen weights are not copied. On an accelerator a check waits for the
    device, so steps are checked ``every`` at a time; on the CPU each before it is taken.
    """

    def __init__(self, model: nn.Module, device: torch.device, every: int = 20) -> None:
        self.every = 1 if device.type == "cpu" else every
        self._weights = [p for p in model.parameters() if p.requires_grad]
        self._live = [*self._weights, *model.buffers()]
        self._kept = [t.detach().clone() for t in self._live]
        self._bad: Tensor | None = None
        self._seen = 0

    @torch.no_grad()
    def passes(self, values: list[Tensor]) -> bool:
        """Add the values of a step; False if a check found one that is not finite."""
        bad = torch.stack([~v.isfinite().all().to(values[0].device) for v in values]).any()
        self._bad = bad if self._bad is None else self._bad | bad
        self._seen += 1
        return bool(self._seen % self.every) or self.check()

    @torch.no_grad()
    def check(self) -> bool:
        """Check now, which waits for the device; keep the weights if all is finite."""
        if self._bad is not None and bool(self._bad):
            return False
        self._bad = None
        for kept, live in zip(self._kept, self._live, strict=True):
            kept.copy_(live)
        return True

    @torch.no_grad()
    def weights_are_finite(self) -> bool:
        """Whether the weights are finite, after a step that no loss has been computed since."""
        return all(bool(w.isfinite().all()) for w in self._weights)

    @torch.no_grad()
    def restore(self) -> None:
        """Put the last good weights back into the model."""
        for kept, live in zip(self._kept, self._live, strict=True):
            live.copy_(kept)
