"""An aggregation: one direction out of two gradients."""

from dataclasses import dataclass

from torch import Tensor

from expunge import Aggregate


@dataclass(frozen=True)
class PlainSum(Aggregate):
    """ĝ_U + ĝ_C.

    Use it as an example of an aggregation; it is `linear` with both weights 1.
    """

    def combine(self, objective: Tensor, constraint: Tensor) -> Tensor:
        """One tensor from the two gradients of a block of parameters."""
        return objective + constraint
