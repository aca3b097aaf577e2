"""Aggregations that weigh the two gradients anew at every step, by their angle or the losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from expunge._kinds import Count, Finite, NotNegative, Positive
from expunge.update._aggregate import Aggregate
from expunge.update._state import common_dtype

Memory = dict[str, Tensor]
"""What an aggregation keeps from step to step: scalars, saved with the state of the update."""


class Readings(NamedTuple):
    """What a step knows before its aggregation: scalars on the device, over all parameters."""

    square_u: Tensor
    """⟨ĝ_U, ĝ_U⟩."""
    square_c: Tensor
    """⟨ĝ_C, ĝ_C⟩."""
    product: Tensor
    """⟨ĝ_U, ĝ_C⟩."""
    constraint: Tensor | None = None
    """The constraint's loss at this step's batch, where it is known."""


@dataclass(frozen=True)
class AdaptiveSum(Aggregate):
    """Base of the aggregations a·ĝ_U + b·ĝ_C whose weights a subclass decides at every step.

    Like ``linear``, the sum is fused with the rest of the update; the two weights are scalars on
    the device, so that nothing waits for it and parameters may be sharded.
    """

    reads_products: ClassVar[bool] = False
    """Whether ``weights`` reads the three products of the gradients, which cost a pass."""
    reads_loss: ClassVar[bool] = False
    """Whether ``weights`` reads the constraint's loss."""

    def weights(self, readings: Readings, memory: Memory) -> tuple[Tensor, Tensor]:
        """(a, b) of this step; ``memory`` may be changed for the next one."""
        raise TypeError(f"{type(self).__name__} should define `weights`.")

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        """One tensor from all of ĝ_U and ĝ_C, to try it out: a step takes ``weights`` instead."""
        products = products_of([objective], [constraint])
        a, b = self.weights(Readings(*products.unbind()), {})
        return a * objective + b * constraint


@dataclass(frozen=True)
class Rectified(AdaptiveSum):
    """GRU: ĝ_U without its component against ĝ_C: ĝ_U + max(0, -⟨ĝ_U, ĝ_C⟩/⟨ĝ_C, ĝ_C⟩)·ĝ_C.

    The step never opposes the constraint to first order, and never works for it either.

    Use it to forget as fast as the constraint allows where its loss is at a minimum already:
    nothing repairs what earlier steps broke.

    Reference: Y. Wang, Q. Wang, F. Liu, W. Huang, Y. Du, X. Du, B. Han, *GRU: Mitigating the
    Trade-off between Unlearning and Retention for LLMs*, ICML 2025 (arXiv 2503.09117).

    Deviation: the retain gradient is that of the step's batch; its moving average, which the
    publication offers, would need a buffer of the size of the model.

    >>> Rectified().combine(torch.tensor([1.0, -1.0]), torch.tensor([0.0, 2.0]))
    tensor([1., 0.])
    """

    reads_products: ClassVar[bool] = True

    def weights(self, readings: Readings, memory: Memory) -> tuple[Tensor, Tensor]:
        share = (-readings.product / readings.square_c).clamp_min(0.0)
        return torch.ones_like(share), torch.where(readings.square_c > 0, share, 0.0)


@dataclass(frozen=True)
class PrimalDual(AdaptiveSum):
    """PDU: (ĝ_U + λ·ĝ_C)/(1 + λ), λ by dual ascent: the paper's constrained problem (5) by itself.

    The Lagrangian U + λ (C - b) is minimised in θ and maximised in λ ≥ 0: after each step

        λ ← max(0, λ + ``rate`` · (C - b)),

    with C the constraint's loss on the step's batch. The bound b is the mean of C over the first
    ``settle`` steps, during which λ stays, plus ``slack``; or ``bound`` itself. Between steps λ is
    kept as ``multiplier`` and, without ``bound``, the mean as ``initial loss`` over ``steps``.

    Use it if it is known how much the constraint's loss may rise, and no α: over some dozens of
    steps it finds the weight by itself.

    Reference: T. Entesari, A. Hatami, R. Khaziev, A. Ramakrishna, M. Fazlyab, *Constrained Entropic
    Unlearning: A Primal-Dual Framework for Large Language Models*, NeurIPS 2025 (arXiv 2506.05314),
    for any U and C.

    Deviation: divided by 1 + λ, so that λ = 19 is ``linear`` with α = 0.05, and an optimizer that
    does not normalise bears it.

    Args:
        slack: how far C may rise, in units of the loss.
        rate: of the dual ascent, positive.
        start: the first λ, not negative.
        settle: steps that b is measured over, at least 1.
        bound: b itself, where it is known.

    >>> memory = {}
    >>> step = lambda loss: PrimalDual(rate=10.0, bound=0.5).weights(
    ...     Readings(*torch.zeros(3), torch.tensor(loss)), memory)
    >>> [round(float(step(loss)[1]), 3) for loss in (0.7, 0.7, 0.1)]  # λ/(1 + λ)
    [0.95, 0.955, 0.958]
    """

    reads_loss: ClassVar[bool] = True

    slack: Finite = 0.0
    rate: Positive = 1.0
    start: NotNegative = 19.0
    settle: Count = 10
    bound: Finite | None = None

    def weights(self, readings: Readings, memory: Memory) -> tuple[Tensor, Tensor]:
        wide = readings.product.double()
        multiplier = memory.get("multiplier", torch.full_like(wide, self.start)).to(wide)
        if readings.constraint is not None:
            loss = readings.constraint.to(wide)
            memory["multiplier"] = self._ascend(multiplier, loss, memory)
        share = (multiplier / (1.0 + multiplier)).to(readings.product)
        return 1.0 - share, share

    def _ascend(self, multiplier: Tensor, loss: Tensor, memory: Memory) -> Tensor:
        """λ for the next step."""
        if self.bound is not None:
            return (multiplier + self.rate * (loss - self.bound)).clamp_min(0.0)
        steps = memory.get("steps", torch.zeros_like(loss)).to(loss)
        mean = memory.get("initial loss", torch.zeros_like(loss)).to(loss)
        settling = steps < self.settle
        memory["initial loss"] = torch.where(settling, mean + (loss - mean) / (steps + 1), mean)
        memory["steps"] = steps + 1
        raised = (multiplier + self.rate * (loss - mean - self.slack)).clamp_min(0.0)
        return torch.where(settling, multiplier, raised)


def products_of(g_u: Sequence[Tensor], g_c: Sequence[Tensor]) -> Tensor:
    """⟨ĝ_U, ĝ_U⟩, ⟨ĝ_C, ĝ_C⟩ and ⟨ĝ_U, ĝ_C⟩ over tensors of one layout [3], in float32 at least."""
    dtype = common_dtype((*g_u, *g_c))
    sums = torch.zeros(3, dtype=dtype, device=g_u[0].device if g_u else None)
    for u, c in zip(g_u, g_c, strict=True):
        if u.numel():
            wide_u, wide_c = u.to(dtype).flatten(), c.to(dtype).flatten()
            pairs = ((wide_u, wide_u), (wide_c, wide_c), (wide_u, wide_c))
            sums += torch.stack([torch.dot(*pair) for pair in pairs]).to(sums.device)
    return sums
