"""BatchNorm over the batches of all processes, on any device.

``torch.nn.SyncBatchNorm`` refuses tensors on the CPU; there, and wherever it does, this one works.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.modules.batchnorm import _BatchNorm

from expunge.distributed._group import Group


@contextmanager
def synchronised(model: nn.Module, group: Group) -> Iterator[None]:
    """Within, BatchNorm layers normalise by the batch of all processes together."""
    plain = (_BatchNorm.forward, nn.SyncBatchNorm.forward)
    layers = [m for m in model.modules() if isinstance(m, _BatchNorm) and type(m).forward in plain]
    before = [type(m) for m in layers]
    if group:
        kinds: dict[type[_BatchNorm], type[_BatchNorm]] = {
            kind: type(kind.__name__, (_Synchronised, kind), {"group": group}) for kind in before
        }
        for layer, kind in zip(layers, before, strict=True):
            layer.__class__ = kinds[kind]
    try:
        yield
    finally:
        for layer, kind in zip(layers, before, strict=True):
            layer.__class__ = kind


class _Synchronised(_BatchNorm):
    """Mixed in before a BatchNorm class. The group is in the class: layers can be copied."""

    group: ClassVar[Group]

    @property
    def process_group(self) -> Any:
        """Where torch's own layer looks for its process group."""
        return self.group.processes

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return _BatchNorm.forward(self, input)
        if input.is_cuda:
            return nn.SyncBatchNorm.forward(self, input)  # type: ignore[arg-type]
        self._check_input_dim(input)  # type: ignore[no-untyped-call]
        return _normalise(self, input, self.group)


def _normalise(layer: _BatchNorm, input: Tensor, group: Group) -> Tensor:
    parts: tuple[Tensor, ...] = _Normalise.apply(input, layer.eps, group)  # type: ignore[no-untyped-call]
    normalised, mean, variance, count = parts
    if layer.track_running_stats and layer.running_mean is not None:
        _remember(layer, mean, variance, count)
    if layer.weight is None:
        return normalised.to(input.dtype)
    shape = [1, -1] + [1] * (input.dim() - 2)
    scaled: Tensor = normalised * layer.weight.view(shape) + layer.bias.view(shape)
    return scaled.to(input.dtype)


@torch.no_grad()
def _remember(layer: _BatchNorm, mean: Tensor, variance: Tensor, count: Tensor) -> None:
    """Move the running statistics, the variance unbiased, as torch does."""
    assert layer.running_mean is not None
    assert layer.running_var is not None
    if layer.num_batches_tracked is not None:
        layer.num_batches_tracked.add_(1)
    factor = layer.momentum
    if factor is None:
        assert layer.num_batches_tracked is not None
        factor = 1.0 / float(layer.num_batches_tracked)
    unbiased = variance * (count / (count - 1))
    for running, new in ((layer.running_mean, mean), (layer.running_var, unbiased)):
        running.mul_(1.0 - factor).add_(new.to(running.dtype), alpha=factor)


class _Normalise(torch.autograd.Function):
    """(x - mean) / √(var + ε) with the statistics of all processes, differentiated through them."""

    @staticmethod
    def forward(
        ctx: Any, input: Tensor, eps: float, group: Group
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        dims = [d for d in range(input.dim()) if d != 1]
        wide = input.to(torch.promote_types(input.dtype, torch.float32))
        variance, mean = torch.var_mean(wide, dim=dims, correction=0)
        here = wide.new_full((1,), float(wide.numel() // wide.shape[1]))
        everyone = group.gather(torch.cat([mean, variance, here]))
        means, variances = everyone[:, :-1].chunk(2, dim=1)
        counts = everyone[:, -1:]
        count = counts.sum()
        mean = (counts * means).sum(dim=0) / count
        # The variance within the processes, and that of their means around the common one.
        variance = (counts * (variances + (means - mean).square())).sum(dim=0) / count
        shape = [1, -1] + [1] * (input.dim() - 2)
        inverse = torch.rsqrt(variance + eps)
        normalised = (wide - mean.view(shape)) * inverse.view(shape)
        ctx.save_for_backward(normalised, inverse, count)
        ctx.group, ctx.dims, ctx.shape, ctx.dtype = group, dims, shape, input.dtype
        ctx.mark_non_differentiable(mean, variance, count)
        return normalised, mean, variance, count

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor, *_: Tensor) -> tuple[Tensor, None, None]:
        normalised, inverse, count = ctx.saved_tensors
        sums = torch.cat([gradient.sum(ctx.dims), (gradient * normalised).sum(ctx.dims)])
        along, across = (ctx.group.sum(sums) / count).chunk(2)
        centred = gradient - along.view(ctx.shape) - normalised * across.view(ctx.shape)
        return (centred * inverse.view(ctx.shape)).to(ctx.dtype), None, None
