"""What forget batches may do to BatchNorm's running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from expunge._options import BatchNormPolicy as BatchNormPolicy


@contextmanager
def batchnorm_as(
    model: nn.Module, policy: BatchNormPolicy, split: str, size: int
) -> Iterator[None]:
    """Run a forward pass on ``size`` examples of ``split`` under ``policy``.

    A batch of one has no variance, so it is normalised by the running statistics whatever the
    policy.
    """
    frozen = policy == "frozen" or size == 1
    silent = policy == "retain-only" and split == "forget"
    if not model.training or not (frozen or silent):
        yield
        return
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.training]
    before = [(m.momentum, m.num_batches_tracked) for m in layers]
    for m in layers:
        if frozen and m.running_mean is not None:
            m.eval()
        else:  # normalise by the batch, remember nothing
            m.momentum = 0.0
            if m.num_batches_tracked is not None:
                m.num_batches_tracked = m.num_batches_tracked.clone()
    try:
        yield
    finally:
        for m, (momentum, tracked) in zip(layers, before, strict=True):
            m.train()
            m.momentum, m.num_batches_tracked = momentum, tracked
