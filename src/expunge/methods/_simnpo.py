"""SimNPO: NPO without a reference model, normalised by length (Fan et al., 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch.nn import functional as F

from expunge._kinds import Positive
from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import is_labelled, token_log_likelihoods


@dataclass(frozen=True)
class SimNPO(TokenMethod):
    """U = -(2/β) E log σ(-(β/|y|) log π(y|x) - γ) on forget sequences; C = NLL of retain tokens.

    |y| is the number of labelled tokens of a sequence, E the mean over sequences, γ the ``margin``.
    There is no initial model, so nothing of it is kept in memory. ∇U is that of ascent on the mean
    log-likelihood of a sequence, weighted by 2σ((β/|y|) log π + γ) ≤ 2: it fades as the tokens
    become unlikely, however likely they were at first. U has a lower bound, 0.

    Use it where sequences differ much in length (NPO counts long ones more), or where there is no
    memory for an initial model.

    Deviation: some implementations put the margin inside, σ(-β(log π/|y| + δ)); then δ = γ/β.

    Reference: C. Fan, J. Liu, L. Lin, J. Jia, R. Zhang, S. Mei, S. Liu, *Simplicity Prevails:
    Rethinking Negative Preference Optimization for LLM Unlearning*, NeurIPS 2025 (arXiv
    2410.07163); β = 2.5 and γ = 0 as there for 5 % of TOFU.
    """

    beta: Positive = 2.5
    margin: float = 0.0

    averages: ClassVar = "sequences"

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        values = token_log_likelihoods(problem.logits(forget), forget.targets)
        lengths = is_labelled(forget.targets).sum(dim=1)
        means = values.sum(dim=1) / lengths.clamp(min=1)
        loss = 2.0 / self.beta * F.softplus(self.beta * means + self.margin).mean()
        return Term(loss, saliency=-values.sum() / lengths.sum())
