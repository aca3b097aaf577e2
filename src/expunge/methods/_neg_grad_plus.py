"""NGPlus: ascent on forget, descent on retain (Kurmanji et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from expunge.data._batches import Batch
from expunge.methods._gradient_ascent import GradientAscent
from expunge.methods._problem import Problem


@dataclass(frozen=True)
class NegGradPlus(GradientAscent):
    """U = -L on forget; C = L on retain."""

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return problem.loss_on(retain)
