"""One pass over the parameters: moments, agreement, weight, aggregation and diagnostics, fused.

:func:`advance` is the whole of Algorithm 1 between the two gradients and the optimizer, for a block
of parameters, in place. It runs in two ways, with the same meaning:

- compiled: ``torch.compile`` turns it into one loop over memory, for blocks of rows of ``ROW``
  elements, the number of rows being symbolic, so that one compilation serves every parameter;
- blocked: as it stands, over blocks small enough that the temporaries stay in the cache.
"""

from __future__ import annotations

import functools
import os
import shutil
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from expunge.update.addons import Addon, Signals, same_sign
from expunge.update.aggregate import Aggregate
from expunge.update.agreement import accord

ROW = 1024
COMPILED_BLOCK = 1 << 20
CPU_BLOCK = 1 << 17
DEVICE_BLOCK = 1 << 23
COMPILE_FROM = 4_000_000
"""Parameters from which a compilation (some 10 s, once) pays for itself."""

SUMS = ("dot_u", "dot_c", "square_u", "square_c", "cross", "accord", "moved", "square", "agree")


class Block(NamedTuple):
    """A stretch of parameters, all tensors of one shape, flat or in rows."""

    objective: Tensor
    constraint: Tensor
    moment_u: Tensor | None = None
    moment_c: Tensor | None = None
    aggregated: Tensor | None = None
    uniform: Tensor | None = None
    salience: Tensor | None = None
    threshold: Tensor | None = None

    def stretch(self, start: int, stop: int, row: int | None = None) -> Block:
        """Elements ``start`` to ``stop`` of a flat block, in rows of ``row`` if given."""

        def cut(tensor: Tensor | None) -> Tensor | None:
            if tensor is None or tensor.dim() == 0:
                return tensor
            piece = tensor[start:stop]
            return piece if row is None else piece.view(-1, row)

        return Block(*(cut(tensor) for tensor in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Recipe:
    """What a kernel is made for; equal recipes share a compilation."""

    addon: Addon
    aggregate: Aggregate
    strict: bool = False
    diagnose: bool = True


def advance(recipe: Recipe, block: Block, coefficients: Tensor, *, fast: bool) -> tuple[Tensor, ...]:
    """Advance one block and return its diagnostic sums.

    ``coefficients`` is (keep, add, scale_u, scale_c). Afterwards ``constraint`` holds -Δ and the
    moments are those of this step; under ``recipe.strict`` ``constraint`` holds the aggregation
    and ``objective`` the weight. The sums follow ``SUMS`` with max |Δ| last, reduced over the last
    dimension of the block.
    """
    g_u, g_c = _statistics_precision(block.objective), _statistics_precision(block.constraint)
    agreement = None
    if block.moment_u is not None and block.moment_c is not None:
        keep, add, scale_u, scale_c = coefficients.unbind()
        block.moment_u.mul_(keep).add_(g_u * g_u * add)
        block.moment_c.mul_(keep).add_(g_c * g_c * add)
        agreement = accord(
            g_u,
            g_c,
            block.moment_u * scale_u,
            block.moment_c * scale_c,
            recipe.addon.stability,
            fast=fast,
        )
    signals = Signals(g_u, g_c, agreement, block.uniform, block.salience, block.threshold)
    weight = recipe.addon.weight(signals)
    aggregated = (
        recipe.aggregate.combine(g_u, g_c) if block.aggregated is None else block.aggregated
    )
    step = weight * aggregated
    sums = _diagnose(g_u, g_c, agreement, weight, step) if recipe.diagnose else ()
    if recipe.strict:
        block.constraint.copy_(aggregated)
        block.objective.copy_(weight)
    else:
        block.constraint.copy_(step)
    return sums


def _statistics_precision(gradient: Tensor) -> Tensor:
    """Half precisions are computed with in float32."""
    return gradient if gradient.dtype == torch.float64 else gradient.float()


def _diagnose(
    g_u: Tensor, g_c: Tensor, agreement: Tensor | None, weight: Tensor, step: Tensor
) -> tuple[Tensor, ...]:
    both = same_sign(g_u, g_c)
    moved = (weight != 0).to(step.dtype)
    if g_u.dim() == 1:  # a dot product needs no temporary
        dot: Callable[[Tensor, Tensor], Tensor] = torch.dot
    else:
        dot = _row_dot
    return (
        dot(step, g_u),
        dot(step, g_c),
        dot(g_u, g_u),
        dot(g_c, g_c),
        dot(g_u, g_c),
        moved.sum(-1) * 0 if agreement is None else agreement.sum(-1),
        moved.sum(-1),
        dot(step, step),
        both.sum(-1),
        step.abs().amax(-1),
    )


def _row_dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).sum(-1)


@functools.lru_cache(maxsize=128)
def compiled(recipe: Recipe) -> Callable[..., Any]:
    """``advance`` for one recipe through ``torch.compile``; raises nothing until it is called."""

    def kernel(block: Block, coefficients: Tensor, *, fast: bool) -> tuple[Tensor, ...]:
        return advance(recipe, block, coefficients, fast=fast)

    # Compilations are counted per code object, and their number is limited: give each its own.
    own = types.FunctionType(
        kernel.__code__.replace(co_name=f"advance_{abs(hash(recipe)):x}"),
        kernel.__globals__,
        closure=kernel.__closure__,
    )
    own.__kwdefaults__ = kernel.__kwdefaults__
    return torch.compile(own, dynamic=True, fullgraph=True)


@functools.lru_cache(maxsize=8)
def can_compile(device: str) -> bool:
    """Whether this machine has what ``torch.compile`` needs for ``device``."""
    if device == "cpu":
        candidates = (os.environ.get("CXX", ""), "g++", "clang++", "c++")
        return any(shutil.which(name) for name in candidates if name)
    if device == "cuda":
        try:
            import triton  # type: ignore[import-not-found,import-untyped,unused-ignore]  # noqa: F401
        except ImportError:
            return False
        return True
    return False


def refuse_to_compile(device: str, error: Exception) -> None:
    """Remember that compilation failed here, and say so once."""
    compiled.cache_clear()
    broken.add(device)
    reason = str(error).strip().splitlines()
    warnings.warn(
        f"torch.compile failed on {device} ({type(error).__name__}: "
        f"{reason[0] if reason else 'no message'}); the update goes on without it.",
        RuntimeWarning,
        stacklevel=2,
    )


broken: set[str] = set()


def should_compile(device: str, parameters: int) -> bool:
    """Whether the automatic choice for a model of this size on this device is to compile."""
    return parameters >= COMPILE_FROM and device not in broken and can_compile(device)
