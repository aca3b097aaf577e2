"""SCRUB: leave the initial model on forget, stay with it on retain (Kurmanji et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from expunge._kinds import NotNegative
from expunge.methods._method import Batch, Method, Problem, Term
from expunge.methods._tokens import labelled


@dataclass(frozen=True)
class Scrub(Method):
    """U = -KL(M₀‖M) on forget; C = KL(M₀‖M) + γL on retain, M₀ frozen in eval mode.

    The student runs once per batch: its logits feed both terms of C, and the saliency on forget.

    At the initial model the gradient of U is exactly zero, unless BatchNorm or dropout make the
    student differ from M₀: the first step is then that of C. With the aggregation ``min-abs``
    there is none, and the model stays as it is.

    Deviation: the paper's released code, which its rows of SCRUB come from, has another loss in
    place of the divergence, Σ p (log p - p₀), and passes each retain batch through the model twice,
    so that BatchNorm's running statistics move further: docs/reproduction.md.

    Use it where retained outputs should stay those of the initial model, not only their classes.

    Reference: M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou, *Towards Unbounded Machine
    Unlearning*, NeurIPS 2023 (arXiv 2302.09880).

    Args:
        gamma: γ, not negative.
        loss: ``divergence``, or ``released``: :func:`released_divergence` in its place, and two
            passes over retain batches.
    """

    gamma: NotNegative = 1.0
    loss: Literal["divergence", "released"] = field(default="divergence", metadata={"later": True})

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        divergence = self._divergence(problem, forget, logits)
        return Term(-divergence, saliency=problem.loss(logits, forget.targets))

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        if self.loss == "released":
            with torch.no_grad():
                problem.logits(retain)
        logits = problem.logits(retain)
        divergence = self._divergence(problem, retain, logits)
        return divergence + self.gamma * problem.loss(logits, retain.targets)

    def _divergence(self, problem: Problem, batch: Batch, logits: Tensor) -> Tensor:
        """Between initial model and student, the mean over the batch or its labelled tokens."""
        problem.check_exclusive("SCRUB", logits, batch.targets)
        initial = problem.initial_logits(batch)
        compare = kl_divergence if self.loss == "divergence" else released_divergence
        return compare(labelled(initial, batch.targets), labelled(logits, batch.targets))


def kl_divergence(initial: Tensor, current: Tensor) -> Tensor:
    """KL(softmax(initial) ‖ softmax(current)), the mean over the batch, from logits [B, K].

    Differentiable in ``current`` alone. The gradient is (p - p₀)/B with p and p₀ from the same
    formula, so it is exactly zero, bit for bit, where the logits are equal: there an automatic
    derivative gives the rounding error of p·Σp₀ - p₀, whose sign means nothing.
    """
    divergence: Tensor = _KLDivergence.apply(initial, current)  # type: ignore[no-untyped-call]
    return divergence


def released_divergence(initial: Tensor, current: Tensor) -> Tensor:
    """Σ p (log p - p₀), the mean over the batch: what the paper's released code computes for KL.

    p₀ and p are the softmax of ``initial`` and ``current`` [B, K]; differentiable in the latter.
    """
    log_p = F.log_softmax(current, dim=-1)
    terms = log_p.exp() * (log_p - F.softmax(initial, dim=-1))
    return terms.sum(dim=-1).mean()


class _KLDivergence(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, initial: Tensor, current: Tensor) -> Tensor:
        log_initial = F.log_softmax(initial, dim=-1)
        log_current = F.log_softmax(current, dim=-1)
        if ctx.needs_input_grad[1]:
            ctx.save_for_backward((log_current.exp() - log_initial.exp()).div_(len(current)))
        return F.kl_div(log_current, log_initial, reduction="batchmean", log_target=True)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        (difference,) = ctx.saved_tensors
        return None, gradient * difference
