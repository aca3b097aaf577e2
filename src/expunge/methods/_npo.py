"""NPO: negative preference optimisation (Zhang et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from torch.nn import functional as F

from expunge._kinds import Positive
from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import count_of, sequence_log_likelihood


@dataclass(frozen=True)
class NPO(TokenMethod):
    """U = -(2/β) E log σ(-β log(π/π₀)) on forget sequences; C = NLL of the retain tokens.

    log(π/π₀) is the log-ratio of a whole sequence, a sum over its labelled tokens, against the
    initial model π₀, frozen in eval mode; E is the mean over sequences. ∇U is that of ascent, each
    sequence weighted by 2π^β/(π^β + π₀^β): 1 where nothing is forgotten yet, towards 0 as the
    sequence is, so that U has a lower bound, 0. β → 0 is ascent. The sum makes long sequences count
    more than short ones; SimNPO divides by the length.

    Use it for language models as the first method to try: it stops pushing what is forgotten, so
    that it breaks them later than GradDiff.

    Reference: R. Zhang, L. Lin, Y. Bai, S. Mei, *Negative Preference Optimization: From
    Catastrophic Collapse to Effective Unlearning*, COLM 2024 (arXiv 2404.05868), equation (3).
    """

    beta: Positive = 0.1

    averages: ClassVar = "sequences"
    compares_with_initial: ClassVar = True

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        now = sequence_log_likelihood(problem.logits(forget), forget.targets)
        loss = preference_loss(-log_ratio(problem, forget, now), self.beta)
        return Term(loss, saliency=-now.sum() / count_of(forget.targets))


def log_ratio(problem: Problem, batch: Batch, now: Tensor) -> Tensor:
    """log(π/π₀) of each sequence [B], from log π = ``now``."""
    return now - sequence_log_likelihood(problem.initial_logits(batch), batch.targets)


def preference_loss(advantage: Tensor, beta: float) -> Tensor:
    """-(2/β) E log σ(β·advantage), the mean over sequences [B]."""
    loss: Tensor = 2.0 / beta * F.softplus(-beta * advantage).mean()  # -log σ(x) = softplus(-x)
    return loss
