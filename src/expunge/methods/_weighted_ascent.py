"""WGA and SatImp: ascent with a weight for each token, from how likely it still is."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from expunge._kinds import NotNegative
from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import is_labelled, token_log_likelihoods


@dataclass(frozen=True)
class _WeightedAscent(TokenMethod):
    """U = E w(p) log p over the labelled forget tokens, the weight w a constant of the step."""

    def weight(self, probability: Tensor) -> Tensor:
        """The weight of tokens by their probability, in [0, 1]."""
        raise TypeError(f"{type(self).__name__} should define `weight`.")

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        values = token_log_likelihoods(problem.logits(forget), forget.targets)
        count = is_labelled(forget.targets).sum()
        weights = self.weight(values.detach().exp())
        return Term((weights * values).sum() / count, saliency=-values.sum() / count)


@dataclass(frozen=True)
class WGA(_WeightedAscent):
    """U = E p^β log p over the labelled forget tokens, p^β held fixed; C = NLL of retain tokens.

    p = π(y_t | y_<t); E is the mean over all labelled tokens of the batch, unweighted. Ascent
    divides by p and so keeps pushing at tokens that are long forgotten; the weight takes that
    back, and β = 0 is GradDiff.

    Use it where ascent breaks the model but NPO, whose weight is one per sequence, is too slow.

    Reference: Q. Wang, J. P. Zhou, Z. Zhou, S. Shin, B. Han, K. Q. Weinberger, *Rethinking LLM
    Unlearning Objectives: A Gradient Perspective and Go Beyond*, ICLR 2025 (arXiv 2502.19301).
    """

    beta: NotNegative = 1.0

    def weight(self, probability: Tensor) -> Tensor:
        return probability**self.beta


@dataclass(frozen=True)
class SatImp(_WeightedAscent):
    """U = E p^β₁ (1-p)^β₂ log p over labelled forget tokens, weights fixed; C = NLL of retain.

    p = π(y_t | y_<t); E is the mean over all labelled tokens of the batch, unweighted. p^β₁ leaves
    alone what is forgotten (saturation), (1-p)^β₂ what the model finds obvious, such as function
    words (importance). β₂ = 0 is WGA.

    Use it where the texts to forget are mostly ordinary language, with little to forget in it. The
    weights are small, below 0.07 by default: give U more weight than other methods need.

    Reference: P. Yang, Q. Wang, Z. Huang, T. Liu, C. Zhang, B. Han, *Exploring Criteria of Loss
    Reweighting to Enhance LLM Unlearning*, ICML 2025 (arXiv 2505.11953).
    """

    beta1: NotNegative = 5.0
    beta2: NotNegative = 1.0

    def weight(self, probability: Tensor) -> Tensor:
        return probability**self.beta1 * (1.0 - probability) ** self.beta2
