"""IGA: look for weights at which both gradients agree (Koyama and Yamaguchi, 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge._kinds import NotNegative
from expunge.methods._method import Batch, Method, Problem, Term
from expunge.methods._registry import METHODS


@dataclass(frozen=True)
class GradientAlignment(Method):
    """U + λ ½‖∇U - ∇C‖² in place of the U of another method, with that method's C.

    The penalty is the trace of the variance of the gradient over two environments, forget and
    retain. It needs second derivatives: a step costs about three times as much.

    Use it to compare gradient penalties with add-ons, which decide per parameter and cost less.

    Reference: M. Koyama, S. Yamaguchi, *When is Invariance Useful in an Out-of-Distribution
    Generalization Problem?*, 2020 (arXiv 2008.01883): inter-gradient alignment, with U and C for
    environments.

    Deviation: the penalty is that of the batches of a step or, where they are taken in parts
    (micro-batches, processes), the mean over these; retain batches pass through BatchNorm twice.

    Args:
        base: the method whose losses they are, by name or itself; it has a constraint and needs no
            unseen data. The losses of SCRUB and BadT cannot be differentiated twice.
        penalty: λ, not negative.
    """

    supports_micro_batches: ClassVar[bool] = False

    base: Method | str = "random-label"
    penalty: NotNegative = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "base", METHODS.resolve(self.base))
        if not isinstance(self.base, Method) or not self.base.constrained or self.base.needs_unseen:
            raise InvalidInput(
                "`base` should be a method with a constraint that needs no unseen data. "
                f"(got {self.base!r})"
            )
        if not self.base.twice_differentiable:
            raise InvalidInput(
                f"The losses of {METHODS.label_of(self.base)} cannot be differentiated twice, "
                "which `gradient-alignment` has to. Take another `base`, such as random-label."
            )

    @property
    def _base(self) -> Method:
        assert isinstance(self.base, Method)
        return self.base

    def prepare(self, problem: Problem) -> None:
        self._base.prepare(problem)

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        self._base.begin_epoch(problem, epoch, epochs)

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        first = _as_term(self._base.objective(problem, forget, retain))
        second = _as_term(self._base.constraint(problem, forget, retain))
        g_u, g_c = (_gradients(term.loss, problem) for term in (first, second))
        variance = sum(0.5 * (u - c).square().sum() for u, c in zip(g_u, g_c, strict=True))
        saliency = first.saliency if first.saliency is not None else first.loss
        return Term(first.loss + self.penalty * variance, saliency=saliency)

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor | Term:
        return self._base.constraint(problem, forget, retain)

    def size(self, name: str, batch: Batch) -> float:
        return self._base.size(name, batch)


def _as_term(loss: Tensor | Term) -> Term:
    return loss if isinstance(loss, Term) else Term(loss)


def _gradients(loss: Tensor, problem: Problem) -> Any:
    """Differentiable gradients of a loss; zeros where it has none."""
    return torch.autograd.grad(
        loss, problem.parameters, create_graph=True, allow_unused=True, materialize_grads=True
    )
