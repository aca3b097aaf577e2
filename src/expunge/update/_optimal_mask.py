"""OPT: the feasible update that drops the fewest of the most conflicting parameters."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from torch import Tensor

from expunge._kinds import Positive
from expunge.update._addons import Addon, Signals
from expunge.update._noise_floor import comparable_product


@dataclass(frozen=True)
class Optimal(Addon):
    """OPT: 0 for as few of the most negative ĝ_U·ĝ_C of each tensor as make the step feasible.

    The step -Δ = m ⊙ (α·ĝ_U + β·ĝ_C) is feasible (9), tensor by tensor, where

        r Σ m ĝ_U² + Σ m ĝ_U ĝ_C ≥ 0   and   Σ m ĝ_C²/r + Σ m ĝ_U ĝ_C ≥ 0,   r = α/β.

    The parameters are sorted by ĝ_U·ĝ_C, and the lowest are dropped one after the other until both
    hold. Where they hold already, all move.

    Use it to move as many parameters as the constraint of each tensor allows.

    Reference: the released code of *Improving Unlearning with Model Updates Probably Aligned with
    Gradients*, AISec 2025, which calls it OPT; the paper does not have it.

    Deviation: parameters with the very product at which the cut falls are all dropped, and rounding
    is not a sign: a product with a gradient that is rounding beside the other counts as 0, as for
    AND.

    Args:
        ratio: r; by default that of the aggregation ``linear``, and 1 with any other.
    """

    compares_signs: ClassVar[bool] = True
    cuts_products: ClassVar[bool] = True

    ratio: Positive | None = field(default=None, kw_only=True)

    def threshold(self, signals: Signals, ratio: float | None) -> Tensor:
        """The product below which all are dropped, for a feasible rest; ±∞ for none or all."""
        ratio = self.ratio or ratio or 1.0
        ordered, order = _product(signals).flatten().sort()
        sides = signals.objective, signals.constraint
        u, c = (side.flatten()[order].double() for side in sides)
        # What is left after dropping the first k, for k = 0, 1, … and all of them.
        squares_u, squares_c, products = (
            _sums_from(values) for values in (ratio * u * u, c * c / ratio, ordered.double())
        )
        feasible = torch.minimum(squares_u, squares_c) + products >= 0
        dropped = feasible.int().argmax()
        end = torch.full_like(ordered[:1], math.inf)
        last_dropped, first_kept = torch.cat([-end, ordered]), torch.cat([ordered, end])
        return 0.5 * last_dropped[dropped] + 0.5 * first_kept[dropped]

    def weight(self, signals: Signals) -> Tensor:
        assert signals.threshold is not None
        return (_product(signals) > signals.threshold).to(signals.objective.dtype)


def _sums_from(values: Tensor) -> Tensor:
    """Σ_{i ≥ k} of [n] for k = 0..n, the last being exactly 0."""
    sums = values.flip(0).cumsum(0).flip(0)
    return torch.cat([sums, torch.zeros_like(values[:1])])


def _product(signals: Signals) -> Tensor:
    assert signals.balance is not None
    return comparable_product(signals.objective, signals.constraint, signals.balance)
