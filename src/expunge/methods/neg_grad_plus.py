"""NGPlus: ascent on forget, descent on retain (Kurmanji et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from expunge.data.batches import Batch
from expunge.methods.gradient_ascent import GradientAscent
from expunge.methods.problem import Problem


@dataclass(frozen=True)
class NegGradPlus(GradientAscent):
    """U = -L on forget; C = L on retain."""

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return problem.loss_on(retain)
