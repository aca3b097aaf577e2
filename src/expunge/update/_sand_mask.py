"""SAND-mask: a smoothed AND that trusts gradients which agree in size as well (2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import torch
from torch import Tensor

from expunge._kinds import Positive, Range
from expunge.update._addons import Addon, Signals
from expunge.update._noise_floor import agree_in_sign


@dataclass(frozen=True)
class SandMask(Addon):
    """SAND: max(0, tanh(k (s - τ)/σ²)), s = 1 where ĝ_U and ĝ_C have one sign and 0 elsewhere.

    σ² = (ĝ_U - ĝ_C)²/2 is the variance over the two gradients: a parameter moves where their signs
    agree, and fully where their sizes do, too. With gradients far below √k it is AND.

    Use it in place of AND where gradients of one sign but very different sizes should count less.

    Reference: S. Shahtalebi, J.-C. Gagnon-Audet, T. Laleh, M. Faramarzi, K. Ahuja, I. Rish,
    *SAND-mask: An Enhanced Gradient Masking Strategy for the Discovery of Invariances in Domain
    Generalization*, 2021 (arXiv 2106.02266), with U and C in place of environments.

    Deviation: the publication divides each tensor's step by the mean of its mask; a weight is in
    [0, 1] here, and Adam divides by sizes anyway. Rounding is not a sign, as for AND.

    Args:
        tau: τ, in [0, 1).
        k: steepness, positive. The publication's 1e-3 to 1e5 make it AND for gradients as small
            as those of a trained classifier.
    """

    tau: Annotated[float, Range(0, 1, "[)")] = 0.5
    k: Positive = 1e-6

    @property
    def compares_signs(self) -> bool:
        return True

    def weight(self, signals: Signals) -> Tensor:
        agree = agree_in_sign(signals.objective, signals.constraint, signals.balance)
        variance = 0.5 * (signals.objective - signals.constraint).square()
        smallest = torch.finfo(variance.dtype).tiny
        steepness = (self.k * (agree - self.tau)) / variance.clamp_min(smallest)
        return torch.tanh(steepness).clamp_min(0.0)
