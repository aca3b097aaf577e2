"""One pass over a block of parameters: moments, agreement, weight, aggregation and diagnostics.

:func:`advance` is the whole of Algorithm 1 between the two gradients and the optimizer, in place.
It runs as it stands over blocks small enough that the temporaries stay in the cache, or compiled
into one loop over memory (:mod:`expunge.update._compiler`); the meaning is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from expunge.update._addons import Addon, Signals
from expunge.update._aggregate import Aggregate

SUMS = (
    "dot_u",
    "dot_c",
    "square_u",
    "square_c",
    "cross",
    "signed_agreement",
    "moved",
    "square",
    "agree",
)
"""The sums over a block for the diagnostics; max |Δ| comes after them."""

Constants = tuple[float | Tensor, ...]
"""(keep, add, scale_u, scale_c) of the moments: numbers, or scalar tensors where compiled."""


class Block(NamedTuple):
    """A stretch of parameters: flat tensors of one length, or scalars for ``threshold``,
    ``balance`` and the weights of the two gradients."""

    objective: Tensor
    constraint: Tensor
    moment_u: Tensor | None = None
    moment_c: Tensor | None = None
    aggregated: Tensor | None = None
    uniform: Tensor | None = None
    salience: Tensor | None = None
    threshold: Tensor | None = None
    balance: Tensor | None = None
    weight_u: Tensor | None = None
    weight_c: Tensor | None = None

    def slice(self, start: int, stop: int) -> Block:
        """Elements ``start`` to ``stop``."""
        if start == 0 and stop == self.objective.numel():
            return self
        return Block(*(t if t is None or t.dim() == 0 else t[start:stop] for t in self))  # type: ignore[arg-type]

    def rows(self, length: int) -> Block:
        """The same elements in rows of ``length``."""
        return Block(*(t if t is None or t.dim() == 0 else t.view(-1, length) for t in self))  # type: ignore[arg-type]


@dataclass(frozen=True)
class KernelSpec:
    """The parts that a kernel is made of; equal specs share a compilation."""

    addon: Addon
    aggregate: Aggregate
    strict: bool = False
    diagnostics: bool = True


def advance(spec: KernelSpec, block: Block, constants: Constants) -> tuple[Tensor, ...]:
    """Advance one block and return its diagnostic sums.

    Afterwards ``constraint`` holds -Δ and the moments are those of this step; under
    ``spec.strict`` ``constraint`` holds the aggregation and ``objective`` the weight. The sums
    follow ``SUMS`` with max |Δ| last, reduced over the last dimension of the block.
    """
    # Half precisions are widened to float32.
    g_u, g_c = (
        g if g.dtype == torch.float64 else g.float() for g in (block.objective, block.constraint)
    )
    agreement = _agreement(spec.addon, block, g_u, g_c, constants)
    weight = None
    if spec.strict or not spec.addon.moves_all:
        given = (block.uniform, block.salience, block.threshold, block.balance)
        weight = spec.addon.weight(Signals(g_u, g_c, agreement, *given))
    if block.aggregated is not None:
        aggregated = block.aggregated.to(g_u.dtype)
    elif block.weight_u is not None and block.weight_c is not None:
        aggregated = block.weight_u.to(g_u.dtype) * g_u + block.weight_c.to(g_u.dtype) * g_c
    else:
        aggregated = spec.aggregate.combine(g_u, g_c)
    step = aggregated if weight is None else weight * aggregated
    sums: tuple[Tensor, ...] = ()
    if spec.diagnostics:
        sums = _diagnose(g_u, g_c, agreement, weight, step)
    if spec.strict:
        assert weight is not None
        block.constraint.copy_(aggregated)
        block.objective.copy_(weight)
    else:
        block.constraint.copy_(step)
    return sums


def _agreement(
    addon: Addon, block: Block, g_u: Tensor, g_c: Tensor, constants: Constants
) -> Tensor | None:
    """2f - 1 after bringing the moments up to this step, for add-ons that have moments."""
    if addon.statistics is None or block.moment_u is None or block.moment_c is None:
        return None
    keep, add, *scales = constants
    if not addon.statistics.from_parts:
        for moment, g in ((block.moment_u, g_u), (block.moment_c, g_c)):
            if isinstance(add, Tensor):
                moment.mul_(keep).add_(g * g * add)
            else:  # one pass less
                moment.mul_(keep).addcmul_(g, g, value=add)
    moments = (block.moment_u, block.moment_c)
    return signed_agreement(g_u, g_c, *moments, addon.stability, (scales[0], scales[1]))


def _diagnose(
    g_u: Tensor, g_c: Tensor, agreement: Tensor | None, weight: Tensor | None, step: Tensor
) -> tuple[Tensor, ...]:
    """The sums over the last dimension."""
    square_u = _dot(g_u, g_u)
    moved = torch.full_like(square_u, step.shape[-1])
    return (
        _dot(step, g_u),
        _dot(step, g_c),
        square_u,
        _dot(g_c, g_c),
        _dot(g_u, g_c),
        torch.zeros_like(square_u) if agreement is None else agreement.sum(-1),
        moved if weight is None else weight.ne(0.0).to(step.dtype).sum(-1),
        _dot(step, step),
        # A sign times a gradient never vanishes, as the product of two gradients may.
        torch.sign(g_u).mul_(g_c).gt_(0.0).sum(-1),
        step.abs().amax(-1),
    )


def _dot(a: Tensor, b: Tensor) -> Tensor:
    """Σ a·b over the last dimension: a compiler fuses the product, and dot needs none."""
    return torch.dot(a, b) if a.dim() == 1 else (a * b).sum(-1)


def signed_agreement(
    objective: Tensor,
    constraint: Tensor,
    moment_u: Tensor,
    moment_c: Tensor,
    eps: float,
    scales: tuple[float | Tensor, float | Tensor] = (1.0, 1.0),
) -> Tensor:
    """``2f - 1``, in [-1, 1]: 1 where the gradients surely agree, -1 where they surely do not.

    With ``φ = Φ(ĝ/√(v+ε)) = (1 + e)/2`` and ``e = erf(ĝ/√(2(v+ε)))``, the probability of (18)

        f = φ_U φ_C + (1-φ_U)(1-φ_C) = (1 + e_U e_C) / 2,

    so ``2f - 1 = e_U e_C``: exact, free of cancellation near f = 1/2, and two ``erf`` in all.
    Elementwise over tensors of one shape; the variance ``v`` is a moment times its scale.
    """
    e_u = _signed_confidence(objective, moment_u, scales[0], eps)
    e_c = _signed_confidence(constraint, moment_c, scales[1], eps)
    return e_u.mul_(e_c)


def _signed_confidence(
    gradient: Tensor, moment: Tensor, scale: float | Tensor, eps: float
) -> Tensor:
    """2Φ(ĝ/√(v+ε)) - 1, in few passes: without a compiler every operation is one."""
    if isinstance(scale, Tensor):  # compiled
        doubled = moment * (2.0 * scale) + 2.0 * eps
    else:
        doubled = torch.rsub(moment, 2.0 * eps, alpha=-2.0 * scale)
    return doubled.rsqrt_().mul_(gradient).erf_()
