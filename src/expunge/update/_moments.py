"""Second moments: estimates of the noise in each component of a batch gradient.

Every choice is one recursion on a buffer the shape of the parameters,

    v ← keep · v + add · ĝ²        diag(Σ) = scale · v,

whose three coefficients depend on the step alone. The kernel knows nothing else about moments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from expunge._errors import InvalidInput
from expunge._kinds import Fraction, Part, Range


class Coefficients(NamedTuple):
    """The recursion of one step: ``v ← keep·v + add·ĝ²``, variance ``scale·v``."""

    keep: float
    add: float
    scale: float


@dataclass(frozen=True)
class Moments(Part):
    """Base of the moment estimators; a subclass defines its coefficients at each step."""

    from_micro_batches: ClassVar[bool] = False
    """Whether the buffer is filled from micro-batch gradients instead of the recursion."""

    def coefficients(self, step: int, parts: int = 1) -> Coefficients:
        """Coefficients at ``step`` (from 1) for a batch that came in ``parts`` micro-batches."""
        raise TypeError(f"{type(self).__name__} should define `coefficients`.")


@dataclass(frozen=True)
class AdamMoments(Moments):
    """``v ← β₂v + (1-β₂)ĝ²``, bias-corrected: ``AdamMoments`` of Algorithm 1.

    Use it by default.

    Reference: Algorithm 1 of *Improving Unlearning with Model Updates Probably Aligned with
    Gradients*, AISec 2025, after D. Kingma, J. Ba, *Adam: A Method for Stochastic Optimization*,
    ICLR 2015.

    Deviation: the paper speaks of the variance of the gradient, Adam of its raw second moment.
    The two agree where the mean is small against the noise.

    >>> AdamMoments(decay=0.9).coefficients(step=1)  # the first variance is ĝ² itself
    Coefficients(keep=0.9, add=0.09999999999999998, scale=10.000000000000002)
    """

    decay: Fraction = 0.999

    def coefficients(self, step: int, parts: int = 1) -> Coefficients:
        return Coefficients(self.decay, 1.0 - self.decay, 1.0 / (1.0 - self.decay**step))


@dataclass(frozen=True)
class PublishedMoments(Moments):
    """``v₁ = (1-ρ)ĝ²``, then ``v ← ρĝ² + (1-ρ)v``: the recursion in the paper's released code.

    It weights the *newest* square by ρ, so after the first step v ≥ ρĝ² and the ratio |ĝ/√v| stays
    below 1/√ρ = 1.054 at ρ = 0.9; hence f ∈ [0.249, 0.751]. The paper's figures come from it.

    Use it to reproduce the paper's figures.

    Reference: the code that the authors of *Improving Unlearning with Model Updates Probably
    Aligned with Gradients*, AISec 2025, released.

    >>> PublishedMoments().coefficients(step=2)
    Coefficients(keep=0.09999999999999998, add=0.9, scale=1.0)
    """

    rho: Fraction = 0.9

    def coefficients(self, step: int, parts: int = 1) -> Coefficients:
        if step == 1:
            return Coefficients(0.0, 1.0 - self.rho, 1.0)
        return Coefficients(1.0 - self.rho, self.rho, 1.0)


@dataclass(frozen=True)
class SampleMoments(Moments):
    """The variance of the batch mean itself, from ``parts`` micro-batch gradients of that batch.

    With K micro-batch gradients ĝₖ of mean ĝ, ``diag(Σ) = Σₖ (ĝₖ - ĝ)² / (K(K-1))``: unbiased, with
    no memory of earlier steps and no pass over the data beyond the batch. BatchNorm layers see the
    micro-batches.

    Use it where the variance itself matters and a batch can be split; it costs a backward pass
    per micro-batch, of smaller batches.

    Reference: the diag(Σ) in the probability of agreement of *Improving Unlearning with Model
    Updates Probably Aligned with Gradients*, AISec 2025, estimated in the textbook's way.

    >>> SampleMoments().coefficients(step=1, parts=4).scale == 1 / 12
    True
    """

    from_micro_batches: ClassVar[bool] = True

    parts: Annotated[int, Range(2, ends="[)")] = 4

    def coefficients(self, step: int, parts: int = 1) -> Coefficients:
        if parts < 2:
            raise InvalidInput(f"The moments `sample` need at least 2 micro-batches. (got {parts})")
        return Coefficients(1.0, 0.0, 1.0 / (parts * (parts - 1)))
