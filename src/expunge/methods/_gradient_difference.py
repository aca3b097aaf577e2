"""GradDiff: ascent on the tokens to forget, descent on those to keep (Liu et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from expunge.data._batches import Batch
from expunge.methods._method import Method
from expunge.methods._problem import Problem
from expunge.methods._tokens import check_token_loss, next_token_loss
from expunge.update._gradients import Term


@dataclass(frozen=True)
class GradientDifference(Method):
    """U = -NLL of the forget tokens; C = NLL of the retain tokens, means over labelled tokens.

    NGPlus for causal language models: the loss is always :func:`expunge.next_token_loss`. U has no
    lower bound. The gradient of U already ranks by saliency.

    Use it for language models, in few steps: later ones break the model.

    Reference: B. Liu, Q. Liu, P. Stone, *Continual Learning and Private Unlearning*, CoLLAs 2022
    (arXiv 2203.12817).
    """

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        check_token_loss(problem.loss)
        return Term(-next_token_loss(problem.logits(forget), forget.targets))

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return next_token_loss(problem.logits(retain), retain.targets)
