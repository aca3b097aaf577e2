"""NGPlus: ascent on forget, descent on retain (Kurmanji et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from expunge.data import Batch
from expunge.methods._gradient_ascent import GradientAscent
from expunge.methods._problem import Problem


@dataclass(frozen=True)
class NegGradPlus(GradientAscent):
    """U = -L on forget; C = L on retain.

    Use it where the loss is all that a model has, as in a regression, with FOCUS, which keeps
    ascent in check.

    Reference: M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou, *Towards Unbounded Machine
    Unlearning*, NeurIPS 2023 (arXiv 2302.09880).
    """

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return problem.loss_on(retain)
