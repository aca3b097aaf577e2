"""GradDiff: ascent on the tokens to forget, descent on those to keep (Liu et al., 2022)."""

from __future__ import annotations

from dataclasses import dataclass

from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import next_token_loss


@dataclass(frozen=True)
class GradientDifference(TokenMethod):
    """U = -NLL of the forget tokens; C = NLL of the retain tokens, means over labelled tokens.

    NGPlus for causal language models: the loss is always :func:`next_token_loss`. U has no lower
    bound: stop early, or take a method that has one. The gradient of U already ranks by
    saliency. With ``retain="kl"`` it is what TOFU calls KL minimisation (Maini et al., 2024).

    Use it for language models, in few steps: later ones break the model.

    Reference: B. Liu, Q. Liu, P. Stone, *Continual Learning and Private Unlearning*, CoLLAs 2022
    (arXiv 2203.12817).
    """

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        return Term(-next_token_loss(problem.logits(forget), forget.targets))
