"""Aggregations: one direction out of two gradients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from inspect import isabstract
from typing import TYPE_CHECKING, Any, ClassVar

from expunge._errors import InvalidInput
from expunge._kinds import NotNegative, Part, Positive
from expunge._registry import Registry
from expunge._specs import split_part
from expunge.update._registry import AGGREGATES

if TYPE_CHECKING:
    from torch import Tensor

TORCHJD_DEFAULTS: dict[str, dict[str, Any]] = {"CAGrad": {"c": 0.5}}
"""Arguments that TorchJD wants and papers have a usual value for."""


@dataclass(frozen=True)
class Aggregate(Part):
    """Base of the aggregations. ``combine`` maps two tensors of one shape to one.

    Where ``elementwise`` is true, ``combine`` may be called on any block of the parameters and is
    fused with the rest of the update; where false, it sees all parameters at once, flat.
    """

    elementwise: ClassVar[bool] = True

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        """One tensor from ĝ_U and ĝ_C."""
        raise TypeError(f"{type(self).__name__} should define `combine`.")


@dataclass(frozen=True)
class WeightedSum(Aggregate):
    """Equation (13): α·ĝ_U + β·ĝ_C, α and β not negative.

    Use it by default; α sets how fast the model forgets, and costs accuracy elsewhere.

    Reference: equation (13) of *Improving Unlearning with Model Updates Probably Aligned with
    Gradients*, AISec 2025.

    >>> import torch
    >>> WeightedSum(alpha=0.5, beta=1.0).combine(torch.tensor([2.0]), torch.tensor([3.0]))
    tensor([4.])
    """

    alpha: NotNegative = 0.05
    beta: NotNegative = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.alpha == self.beta == 0.0:
            raise InvalidInput("`alpha` and `beta` should not both be 0: nothing would move.")

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        # One pass less than α·ĝ_U + β·ĝ_C, and one rounding.
        return (self.beta * constraint).add_(objective, alpha=self.alpha)


@dataclass(frozen=True)
class MinAbs(Aggregate):
    """Equation (14): whichever of the two is smaller in absolute value (ĝ_U where they tie).

    Use it for the most cautious steps: no parameter moves further than both losses ask for.

    Reference: equation (14) of *Improving Unlearning with Model Updates Probably Aligned with
    Gradients*, AISec 2025.

    >>> import torch
    >>> MinAbs().combine(torch.tensor([2.0, -1.0]), torch.tensor([-3.0, 5.0]))
    tensor([ 2., -1.])
    """

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        return objective.where(objective.abs() <= constraint.abs(), constraint)


@dataclass(frozen=True)
class SignGated(Aggregate):
    """SAGO: β·ĝ_C, and α·ĝ_U besides where both have the same sign.

    The retain gradient always counts; the forget gradient is let in only where it does not oppose
    it. No component ever points against ĝ_C. Where ĝ_C is rounding beside ĝ_U, it has no sign.

    Use it where keeping matters more than forgetting, and in place of an add-on: it masks the
    forget gradient as AND would, but never the other.

    Reference: Z. Xiao, S. Li, Y. Wang, X. Wei, J. Yang, Y. Chen, G. Chen, *Modeling LLM Unlearning
    as an Asymmetric Two-Task Learning Problem*, ACL 2026 (arXiv 2604.14808), from its description:
    an element-wise gate by the signs.

    >>> import torch
    >>> SignGated(1.0, 1.0).combine(torch.tensor([2.0, -1.0]), torch.tensor([3.0, 5.0]))
    tensor([5., 5.])
    """

    alpha: Positive = 0.05
    beta: Positive = 0.95

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        from expunge.update._noise_floor import agree_in_sign

        gate = agree_in_sign(objective, constraint, objective.new_ones(()))
        return self.alpha * gate * objective + self.beta * constraint


@dataclass(frozen=True)
class Jacobian(Aggregate):
    """Any aggregator of a Jacobian: a callable from a (2, n) matrix to a vector of n.

    Every aggregator of TorchJD is one (UPGrad, PCGrad, CAGrad, …). The rows are ĝ_U and ĝ_C. It
    needs all parameters at once, so it holds two flat copies of the gradients while it works.

    >>> import torch
    >>> Jacobian(lambda matrix: matrix.mean(dim=0)).combine(torch.ones(2), torch.zeros(2))
    tensor([0.5000, 0.5000])
    """

    elementwise: ClassVar[bool] = False

    aggregator: Any

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        import torch

        vector = self.aggregator(torch.stack([objective, constraint]))
        if not isinstance(vector, torch.Tensor) or vector.shape != objective.shape:
            got = tuple(vector.shape) if isinstance(vector, torch.Tensor) else type(vector).__name__
            raise InvalidInput(
                "An aggregator should map a (2, n) matrix to a vector of n. "
                f"(got {got} for n = {objective.numel()})"
            )
        return vector


@dataclass(frozen=True)
class TorchJD(Aggregate):
    """An aggregator of TorchJD by name and arguments, so that a run with it can be written down.

    ``options`` are pairs of a name and a number. It sees all parameters at once.
    """

    elementwise: ClassVar[bool] = False

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "options", tuple((str(k), v) for k, v in self.options))
        _ = self.aggregator

    @cached_property
    def aggregator(self) -> Any:
        """The aggregator itself, from a (2, n) matrix to a vector of n."""
        table = _torchjd_table()
        kind = table[self.name]
        options = TORCHJD_DEFAULTS.get(table.name(self.name), {}) | dict(self.options)
        try:
            return kind(**options)
        except TypeError as error:
            raise InvalidInput(
                f"`torchjd:{self.name}` takes other arguments ({error}): give numbers in brackets, "
                "as torchjd:CAGrad(c=0.4), or pass "
                f"`aggregate=torchjd.aggregation.{kind.__name__}(...)`."
            ) from error

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        return Jacobian(self.aggregator).combine(objective, constraint)


@dataclass(frozen=True)
class Alone(Aggregate):
    """The objective's gradient itself: what remains of any aggregation without a constraint.

    Also the placeholder in a kernel whose step was aggregated before it, or gets its weights.
    """

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        return objective


def as_aggregate(part: Aggregate | str | Any) -> Aggregate:
    """An aggregation from an instance, a name, ``torchjd:NAME``, or a TorchJD aggregator."""
    if isinstance(part, Aggregate):
        return part
    if isinstance(part, str):
        kind, _, rest = part.partition(":")
        if kind.lower() != "torchjd":
            return AGGREGATES.resolve(part)  # type: ignore[no-any-return]
        name, options = split_part(rest)
        return TorchJD(_torchjd_table().name(name), tuple(options.items()))
    if callable(part) and not isinstance(part, type):
        return Jacobian(part)
    raise InvalidInput(f"`aggregate` should be a name or an aggregation. (got {part!r})")


def aggregate_name(text: str) -> str:
    """The full name of an aggregation, with its options; those of TorchJD as they are given."""
    return text if text.lower().startswith("torchjd:") else AGGREGATES.name(text)


def aggregate_label(name: str) -> str:
    """The short name that tables print: ``PCGrad`` for ``torchjd:PCGrad``."""
    kind, _, rest = name.partition(":")
    return rest if kind.lower() == "torchjd" else AGGREGATES.label(name)


def _torchjd_table() -> Registry[type]:
    try:
        import torchjd.aggregation as torchjd
    except ImportError as error:
        raise InvalidInput(
            "Aggregations `torchjd:NAME` need the extra: pip install 'expunge[torchjd]'."
        ) from error
    table: Registry[type] = Registry("TorchJD aggregator")
    for candidate in dir(torchjd):
        part = getattr(torchjd, candidate)
        if isinstance(part, type) and issubclass(part, torchjd.Aggregator) and not isabstract(part):
            table.add(candidate, part)
    return table
