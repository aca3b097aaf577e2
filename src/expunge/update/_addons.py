"""Add-ons: a weight in [0, 1] for every parameter, from how the two gradients agree.

An add-on is a pure elementwise function of :class:`Signals`; it owns no buffers and no loop. To
add one, subclass :class:`Addon`, define ``weight`` and register the class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from expunge._kinds import Fraction, Part, Positive, Range
from expunge.update._moments import AdamMoments, Moments
from expunge.update._noise_floor import agree_in_sign, is_stationary
from expunge.update._registry import MOMENTS

RELATIVE_EPS = 1 / 16
"""Of the mean of ĝ². With it, f of NGPlus splits as the paper says: a quarter disagrees, half is
uncertain, a quarter agrees (docs/explanation/update.md)."""


class Signals(NamedTuple):
    """The inputs of a weight for a block of parameters: tensors of one shape, or scalars."""

    objective: Tensor
    """ĝ_U, the batch gradient of the objective to minimise."""
    constraint: Tensor
    """ĝ_C, the batch gradient of the constraint."""
    signed_agreement: Tensor | None = None
    """2f - 1, for add-ons with moments."""
    uniform: Tensor | None = None
    """Independent draws from [0, 1), for add-ons that sample."""
    saliency_gradient: Tensor | None = None
    """The gradient of the loss on forget data, for add-ons that rank by it."""
    threshold: Tensor | None = None
    """One for each parameter's whole tensor: a quantile of the absolute saliency gradient, or where
    products are cut off."""
    balance: Tensor | None = None
    """‖ĝ_C‖∞/‖ĝ_U‖∞ over all parameters, for add-ons that compare signs; infinite where one of the
    two losses is at a stationary point."""


@dataclass(frozen=True)
class Addon(Part):
    """Base of the add-ons. ``weight`` is elementwise; the flags say what it reads."""

    draws: ClassVar[bool] = False
    needs_saliency: ClassVar[bool] = False
    moves_all: ClassVar[bool] = False
    """Whether the weight is 1 everywhere, and need not be computed."""
    cuts_products: ClassVar[bool] = False
    """Whether it cuts off products of the two gradients, by ``threshold`` of a whole tensor."""

    @property
    def quantile(self) -> float:
        """Of |∇L| in each tensor, the threshold of add-ons that need saliency."""
        return 0.5

    @property
    def compares_signs(self) -> bool:
        """Whether ``weight`` reads ``Signals.balance``, to tell a sign from rounding."""
        return False

    @property
    def moment_estimator(self) -> Moments | None:
        """The moments this add-on needs, or None."""
        return None

    @property
    def epsilon(self) -> float | None:
        """ε of Algorithm 1, added to the variances; None where it follows from the gradients."""
        return 1e-8

    def weight(self, signals: Signals) -> Tensor:
        """The weight of each parameter, in [0, 1]."""
        raise TypeError(f"{type(self).__name__} should define `weight`.")

    def threshold(self, signals: Signals, ratio: float | None) -> Tensor:
        """The threshold of a whole tensor, for add-ons that cut; ``ratio`` is α/β of ``linear``."""
        raise TypeError(f"{type(self).__name__} should define `threshold`.")


@dataclass(frozen=True)
class NoAddon(Addon):
    """Every parameter moves: the base method itself.

    Use it as the baseline of every add-on.
    """

    moves_all: ClassVar[bool] = True

    def weight(self, signals: Signals) -> Tensor:
        return torch.ones_like(signals.objective)


@dataclass(frozen=True)
class Saliency(Addon):
    """SalUn: 1 where |∇L on forget| ≥ its median in that tensor, else 0.

    The median of an even number of values is the lower of the two in the middle, so at least half
    of every tensor moves.

    Deviation: a median at the level of rounding, below 8·eps times the largest |∇L| of all
    parameters, counts as 0. Such a tensor (a bias before BatchNorm) has nothing to rank by: all of
    it moves, instead of a half that rounding chooses. The released code of the paper interpolates
    the median: at most one weight of each tensor less moves. For SRL and SCRUB it passes each
    forget batch through the model once more, so that BatchNorm's running statistics see it twice.

    Use it to compare with: the mask that the paper's add-ons improve on.

    Reference: C. Fan, J. Liu, Y. Zhang, E. Wong, D. Wei, S. Liu, *SalUn: Empowering Machine
    Unlearning via Gradient-based Weight Saliency*, ICLR 2024 (arXiv 2310.12508).

    Args:
        quantile: in place of the median, in [0, 1); the lower of two values that it is between.
    """

    needs_saliency: ClassVar[bool] = True

    quantile: Annotated[float, Range(0, 1, "[)")] = field(default=0.5, metadata={"later": True})

    def weight(self, signals: Signals) -> Tensor:
        assert signals.saliency_gradient is not None
        assert signals.threshold is not None
        return (signals.saliency_gradient.abs() >= signals.threshold).to(signals.objective.dtype)


def absolute_quantile(values: Tensor, quantile: float) -> Tensor:
    """The quantile of |x| over a whole tensor: the lower of the two values that it is between."""
    sizes = values.abs().flatten()
    if quantile == 0.5 or not len(sizes):
        return sizes.median()
    return sizes.kthvalue(math.floor(quantile * (len(sizes) - 1)) + 1).values


@dataclass(frozen=True)
class And(Addon):
    """AND, equation (11): 1 where ĝ_U·ĝ_C > 0, else 0.

    Use it with large batches, whose gradients have little noise. It moves fastest, and is the
    first to become unstable.

    Reference: equation (11) of *Improving Unlearning with Model Updates Probably Aligned with
    Gradients*, AISec 2025.

    Deviation: rounding is not a sign. Relative to the largest entries of their gradients over all
    parameters, neither ĝ_U nor ĝ_C may be below τ = 8·eps times the other, with the eps of the type
    computed in: 1e-6 for float32. Where one gradient *as a whole* is below τ times the other, its
    loss is at a stationary point and has nothing to disagree with, as if it were not there: every
    parameter moves. SCRUB's objective is at one at the initial model; by the letter of (11) a model
    without BatchNorm or dropout would never leave it.

    Deviation: the released code keeps f ≥ 1/2, so that a parameter with a gradient of exactly zero
    moves. ``ties="released"`` does the same; ten steps later, weights differ by some thousandths.

    >>> And().weight(Signals(torch.tensor([2.0, -1.0, 0.0]), torch.tensor([1.0, 1.0, 1.0])))
    tensor([1., 0., 0.])
    """

    compares_signs: ClassVar[bool] = True

    ties: Literal["masked", "released"] = field(default="masked", metadata={"later": True})

    def weight(self, signals: Signals) -> Tensor:
        agree = agree_in_sign(signals.objective, signals.constraint, signals.balance)
        if self.ties == "masked":
            return agree
        tied = (signals.objective == 0.0) | (signals.constraint == 0.0)
        return torch.maximum(agree, tied.to(agree.dtype))


@dataclass(frozen=True)
class _Probable(Addon):
    """What PROB, BER and FOCUS share: moments for the variances, and ε.

    f is smooth in ĝ: gradients far below √ε, and rounding is, have f = 1/2 whatever their signs. So
    an absolute ε makes f depend on the scale of the gradients, which grows as networks get
    narrower. ``eps="relative"`` takes ``RELATIVE_EPS`` of the mean of ĝ² over all parameters, for
    each of the two gradients at every step: f is then the same whatever the losses are scaled by.
    """

    moments: Moments | str = field(default_factory=AdamMoments)
    eps: Positive | Literal["relative"] = 1e-8

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "moments", MOMENTS.resolve(self.moments))

    @property
    def moment_estimator(self) -> Moments:
        assert isinstance(self.moments, Moments)
        return self.moments

    @property
    def epsilon(self) -> float | None:
        return None if isinstance(self.eps, str) else self.eps


@dataclass(frozen=True)
class Prob(_Probable):
    """PROB, equation (20): 1 where f > p, else 0.

    ``p`` is the level of certainty, in (0, 1); at 1/2 the mask is AND's (Proposition 5).

    Use it where a mask is wanted, with a level of certainty that means something.

    Reference: equation (20) of *Improving Unlearning with Model Updates Probably Aligned with
    Gradients*, AISec 2025.

    Deviation: as for AND. At p = 1/2 a gradient at the level of rounding agrees with nothing; and
    from p = 1/2 on, where one loss is at a stationary point, so that f = 1/2 everywhere, every
    parameter moves.

    >>> Prob(p=1.2)
    Traceback (most recent call last):
    expunge._errors.InvalidInput: `p` should be in (0, 1). (got 1.2)
    """

    p: Fraction = 0.3

    @property
    def compares_signs(self) -> bool:
        return self.p >= 0.5

    def weight(self, signals: Signals) -> Tensor:
        assert signals.signed_agreement is not None
        if self.p == 0.5:  # Proposition 5, and exact where the product of two erf underflows
            return agree_in_sign(signals.objective, signals.constraint, signals.balance)
        certain = signals.signed_agreement > 2.0 * self.p - 1.0
        if signals.balance is not None:
            certain = certain | is_stationary(signals.balance)
        return certain.to(signals.signed_agreement.dtype)


@dataclass(frozen=True)
class Bernoulli(_Probable):
    """BER, equation (22): 1 with probability f, else 0.

    Use it where a mask is wanted, without a threshold to choose.

    Reference: equation (22) of *Improving Unlearning with Model Updates Probably Aligned with
    Gradients*, AISec 2025.
    """

    draws: ClassVar[bool] = True

    def weight(self, signals: Signals) -> Tensor:
        assert signals.signed_agreement is not None
        assert signals.uniform is not None
        chance = 0.5 + 0.5 * signals.signed_agreement
        return (signals.uniform < chance).to(chance.dtype)


@dataclass(frozen=True)
class Focus(_Probable):
    """FOCUS, equation (24): the focus vector f = φ_U φ_C + (1-φ_U)(1-φ_C) itself.

    Use it as the first add-on to try. There is no threshold to choose and no third gradient.

    Reference: equation (24) of *Improving Unlearning with Model Updates Probably Aligned with
    Gradients*, AISec 2025.

    >>> Focus(moments="published").moments
    PublishedMoments(rho=0.9)
    """

    def weight(self, signals: Signals) -> Tensor:
        assert signals.signed_agreement is not None
        # 0.5 + 0.5·signed_agreement in one pass
        return torch.rsub(signals.signed_agreement, 0.5, alpha=-0.5)
