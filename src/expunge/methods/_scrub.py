"""SCRUB: leave the initial model on forget, stay with it on retain (Kurmanji et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from expunge._errors import InvalidInput
from expunge.data._batches import Batch
from expunge.methods._method import Method
from expunge.methods._problem import Problem
from expunge.methods._tokens import labelled
from expunge.update._gradients import Term


@dataclass(frozen=True)
class Scrub(Method):
    """U = -KL(M₀‖M) on forget; C = KL(M₀‖M) + γL on retain, M₀ frozen in eval mode.

    The student runs once per batch: its logits feed both terms of C, and the saliency on forget.

    At the initial model the gradient of U is exactly zero, unless BatchNorm or dropout make the
    student differ from M₀: the first step is then that of C. With the aggregation ``min-abs``
    there is none, and the model stays as it is.

    Use it where retained outputs should stay those of the initial model, not only their classes;
    with Rewind, where forgotten data should look unseen.

    Reference: M. Kurmanji, P. Triantafillou, J. Hayes, E. Triantafillou, *Towards Unbounded Machine
    Unlearning*, NeurIPS 2023 (arXiv 2302.09880).
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.gamma >= 0:
            raise InvalidInput(f"`gamma` should not be negative. (got {self.gamma})")

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        divergence = kl_divergence(*self._both(problem, forget, logits))
        return Term(-divergence, saliency=problem.loss(logits, forget.targets))

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        logits = problem.logits(retain)
        divergence = kl_divergence(*self._both(problem, retain, logits))
        return divergence + self.gamma * problem.loss(logits, retain.targets)

    def _both(self, problem: Problem, batch: Batch, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Logits [N, K] of the initial model and of the student; of tokens, the labelled ones."""
        problem.check_exclusive("SCRUB", logits, batch.targets)
        initial = problem.initial_logits(batch)
        return labelled(initial, batch.targets), labelled(logits, batch.targets)


def kl_divergence(initial: Tensor, current: Tensor) -> Tensor:
    """KL(softmax(initial) ‖ softmax(current)), the mean over the batch, from logits [B, K].

    Differentiable in ``current`` alone. The gradient is (p - p₀)/B with p and p₀ from the same
    formula, so it is exactly zero, bit for bit, where the logits are equal: there an automatic
    derivative gives the rounding error of p·Σp₀ - p₀, whose sign means nothing.

    >>> import torch
    >>> logits = torch.tensor([[0.1, 0.2, 0.7]], requires_grad=True)
    >>> kl_divergence(logits.detach(), logits).backward()
    >>> logits.grad
    tensor([[0., 0., 0.]])
    """
    divergence: Tensor = _KLDivergence.apply(initial, current)  # type: ignore[no-untyped-call]
    return divergence


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
