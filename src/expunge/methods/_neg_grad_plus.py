"""NGPlus: ascent on forget, descent on retain (Kurmanji et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass

from expunge.methods._gradient_ascent import GradientAscent
from expunge.methods._method import MethodWithRetainLoss


@dataclass(frozen=True)
class NegGradPlus(MethodWithRetainLoss, GradientAscent):
    """U = -L on forget; C = L on retain.

    Use it where the loss is all that a model has, as in a regression, with FOCUS, which keeps
    ascent in check.

    Reference: M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou, *Towards Unbounded Machine
    Unlearning*, NeurIPS 2023 (arXiv 2302.09880).
    """
