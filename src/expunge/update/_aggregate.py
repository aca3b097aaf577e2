"""Aggregations: one direction out of two gradients."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from importlib.util import find_spec
from inspect import isabstract
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from expunge._errors import InvalidInput
from expunge._part_values import check_fields
from expunge._registry import Registry
from expunge.update._registry import AGGREGATES

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Aggregate:
    """Base of the aggregations. ``combine`` maps two tensors of one shape to one.

    Where ``elementwise`` is true, ``combine`` may be called on any block of the parameters and is
    fused with the rest of the update; where false, it sees all parameters at once, flat.
    """

    elementwise: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_fields(self)

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        """One tensor from ĝ_U and ĝ_C."""
        raise TypeError(f"{type(self).__name__} should define `combine`.")

    def combine_into(self, objective: Tensor, constraint: Tensor, out: Tensor) -> Tensor:
        """:meth:`combine`, in the memory of ``out`` if it can be computed there; the same bits."""
        return self.combine(objective, constraint)


@dataclass(frozen=True)
class Linear(Aggregate):
    """Equation (13): α·ĝ_U + β·ĝ_C, α and β not negative.

    >>> import torch
    >>> Linear(alpha=0.5, beta=1.0).combine(torch.tensor([2.0]), torch.tensor([3.0]))
    tensor([4.])
    """

    alpha: float = 0.05
    beta: float = 0.95

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, value in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 <= value < math.inf:
                raise InvalidInput(f"`{name}` should be finite and not negative. (got {value})")
        if self.alpha == self.beta == 0.0:
            raise InvalidInput("`alpha` and `beta` should not both be 0: nothing would move.")

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        # One pass less than α·ĝ_U + β·ĝ_C, and one rounding.
        return (self.alpha * objective).add_(constraint, alpha=self.beta)

    def combine_into(self, objective: Tensor, constraint: Tensor, out: Tensor) -> Tensor:
        import torch

        return torch.mul(objective, self.alpha, out=out).add_(constraint, alpha=self.beta)


@dataclass(frozen=True)
class MinAbs(Aggregate):
    """Equation (14): whichever of the two is smaller in absolute value (ĝ_U where they tie).

    >>> import torch
    >>> MinAbs().combine(torch.tensor([2.0, -1.0]), torch.tensor([-3.0, 5.0]))
    tensor([ 2., -1.])
    """

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        return objective.where(objective.abs() <= constraint.abs(), constraint)


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
class Alone(Aggregate):
    """The objective's gradient itself: what remains of any aggregation without a constraint."""

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        return objective


def as_aggregate(part: Aggregate | str | Any) -> Aggregate:
    """An aggregation from an instance, a name, ``torchjd:NAME``, or a TorchJD aggregator."""
    if isinstance(part, Aggregate):
        return part
    if isinstance(part, str):
        kind, _, name = part.partition(":")
        return _torchjd(name) if kind.lower() == "torchjd" else _named(part)
    if callable(part) and not isinstance(part, type):
        return Jacobian(part)
    raise InvalidInput(f"`aggregate` should be a name or an aggregation. (got {part!r})")


def _named(name: str) -> Aggregate:
    """A registered aggregation; the error suggests TorchJD's where that has one of the name."""
    if name not in AGGREGATES and name.lower() in (known := _torchjd_names()):
        raise InvalidInput(
            f"Unknown {AGGREGATES.kind} {name!r}. Did you mean 'torchjd:{known[name.lower()]}'?"
        )
    aggregate: Aggregate = AGGREGATES.resolve(name)
    return aggregate


def _torchjd_names() -> dict[str, str]:
    """The names that TorchJD exports, by lower case; read, not imported, as it brings torch."""
    spec = find_spec("torchjd")
    if spec is None or spec.origin is None:
        return {}
    exports = Path(spec.origin).with_name("aggregation") / "__init__.py"
    text = exports.read_text(encoding="utf-8") if exports.is_file() else ""
    return {name.lower(): name for name in re.findall(r"import ([A-Z]\w+)", text)}


def _torchjd(name: str) -> Jacobian:
    try:
        import torchjd.aggregation as torchjd
    except ImportError as error:
        raise InvalidInput(
            f"`torchjd:{name}` needs the extra: pip install 'expunge[torchjd]'."
        ) from error
    table: Registry[type] = Registry("TorchJD aggregator")
    for candidate in dir(torchjd):
        part = getattr(torchjd, candidate)
        if isinstance(part, type) and issubclass(part, torchjd.Aggregator) and not isabstract(part):
            table.add(candidate, part)
    kind = table[name]
    try:
        return Jacobian(kind())
    except TypeError as error:
        raise InvalidInput(
            f"`torchjd:{name}` takes arguments: pass "
            f"`aggregate=torchjd.aggregation.{kind.__name__}(...)`."
        ) from error
