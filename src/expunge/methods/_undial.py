"""UNDIAL: distil from the initial model with some logits lowered (Dong et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn import functional as F

from expunge._kinds import Positive
from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import labelled_rows


@dataclass(frozen=True)
class UNDIAL(TokenMethod):
    """U = H(softmax(z₀ - γ·1_y), π) over the labelled forget tokens; C = NLL of the retain tokens.

    z₀ are the logits of the initial model, frozen in eval mode, y the token to forget and γ the
    ``strength``; H is the cross-entropy, a mean over all labelled tokens of the batch. The targets
    never move, so U is an ordinary supervised loss with a minimum at the targets.

    Use it where a run should converge instead of being stopped, as with many requests in a row.

    Deviation: published code also distils prompts and padding, where no token is to be forgotten.

    Reference: Y. R. Dong, H. Lin, M. Belkin, R. Huerta, I. Vulić, *UNDIAL: Self-Distillation with
    Adjusted Logits for Robust Unlearning in Large Language Models*, NAACL 2025 (arXiv 2402.10052);
    γ = 10 as in open-unlearning.
    """

    strength: Positive = 10.0

    compares_with_initial: ClassVar = True

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        rows, tokens = labelled_rows(problem.logits(forget), forget.targets)
        initial, _ = labelled_rows(problem.initial_logits(forget), forget.targets)
        lowered = initial - self.strength * F.one_hot(tokens, rows.shape[-1]).to(initial.dtype)
        loss = F.cross_entropy(rows, torch.softmax(lowered, dim=-1))
        return Term(loss, saliency=F.cross_entropy(rows, tokens))
