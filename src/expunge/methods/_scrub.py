"""SCRUB: leave the initial model on forget, stay with it on retain (Kurmanji et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
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

    The student runs once a batch: its logits feed both terms of C, and the saliency on forget.
    """

    gamma: float = 1.0

    def __post_init__(self) -> None:
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
        initial = problem.initial_logits(batch)
        return labelled(initial, batch.targets), labelled(logits, batch.targets)


def kl_divergence(initial: Tensor, current: Tensor) -> Tensor:
    """KL(softmax(initial) ‖ softmax(current)), the mean over the batch, from logits [B, K]."""
    return F.kl_div(
        F.log_softmax(current, dim=-1),
        F.log_softmax(initial, dim=-1),
        reduction="batchmean",
        log_target=True,
    )
