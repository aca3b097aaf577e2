"""GA: undo learning by climbing the loss on what is to be forgotten (Thudi et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass

from expunge.methods._method import Batch, Method, Problem, Term


@dataclass(frozen=True)
class GradientAscent(Method):
    """U = -L on forget, no constraint. The gradient of U already ranks by saliency.

    Use it to see what nothing but pushing does: it forgets, and breaks the rest within epochs.

    Reference: A. Thudi, G. Deza, V. Chandrasekaran, N. Papernot, *Unrolling SGD: Understanding
    Factors Influencing Machine Unlearning*, EuroS&P 2022 (arXiv 2109.13398).
    """

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        return Term(-problem.loss_on(forget))
