"""How to unlearn, as one value: what a card, a key or a shadow model needs to repeat it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from expunge._errors import InvalidInput
from expunge.methods import METHODS, BatchNormPolicy, Method
from expunge.methods._batchnorm import check_policy
from expunge.methods._precision import Precision, check_precision
from expunge.update import ADDONS, Addon, Aggregate
from expunge.update._aggregate import as_aggregate


@dataclass(frozen=True)
class Procedure:
    """The arguments of :func:`expunge.unlearn` that decide what the model becomes.

    Names are turned into parts, so that two spellings of one procedure are equal.

    >>> Procedure(method="SRL").method
    RandomLabel(num_classes=None)
    """

    method: Method | str = "random-label"
    addon: Addon | str = "focus"
    aggregate: Aggregate | str | Any = "linear"
    epochs: int = 10
    batch_size: int = 256
    lr: float = 1e-4
    batchnorm: BatchNormPolicy = "published"
    strict: bool = False
    micro_batches: int = field(default=1, metadata={"later": True})
    precision: Precision = field(default="fp32", metadata={"later": True})

    def __post_init__(self) -> None:
        object.__setattr__(self, "method", METHODS.resolve(self.method))
        object.__setattr__(self, "addon", ADDONS.resolve(self.addon))
        object.__setattr__(self, "aggregate", as_aggregate(self.aggregate))
        check_policy(self.batchnorm)
        check_precision(self.precision)
        if self.epochs < 1 or self.batch_size < 1:
            raise InvalidInput(
                "`epochs` and `batch_size` should be at least 1. "
                f"(got {self.epochs} and {self.batch_size})"
            )
        if self.micro_batches < 1:
            raise InvalidInput(f"`micro_batches` should be at least 1. (got {self.micro_batches})")

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments for :func:`expunge.unlearn`."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @property
    def label(self) -> str:
        """``SRL-FOCUS``: the short names of the paper."""
        addon = ADDONS.label_of(self.addon)
        method = METHODS.label_of(self.method)
        return method if addon == "none" else f"{method}-{addon}"
