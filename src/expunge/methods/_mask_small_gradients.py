"""MSG: re-noise the weights with small gradients of both losses, then fine-tune."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from expunge._kinds import Fraction
from expunge.methods._fine_tune import FineTune
from expunge.methods._problem import Problem, eval_mode


@dataclass(frozen=True)
class MaskSmallGradients(FineTune):
    """Of each tensor, the ``share`` with the smallest Σ min(|ĝ_U|, |ĝ_C|) becomes ε·θ; then FT.

    The sum is over the batches of one pass, the gradients are those of the loss on forget and on
    retain in eval mode, and ε ~ N(0, 1). Deviation: the paper does not say which losses; these are
    NGPlus's up to sign, which the absolute value removes. Its released code ranks in train mode,
    and fine-tunes for one epoch less.

    Use it as a strong baseline for small forget sets, where there is time to fine-tune afterwards.

    Reference: the Machine Unlearning Challenge of NeurIPS 2023, as described by X. F. Cadet, A.
    Borovykh, M. Malekzadeh, S. Ahmadi-Abhari, H. Haddadi, *Deep Unlearn: Benchmarking Machine
    Unlearning for Image Classification*, 2024 (arXiv 2410.01276).
    """

    share: Fraction = 0.3

    def prepare(self, problem: Problem) -> None:
        parameters = problem.parameters
        scores = [torch.zeros_like(p) for p in parameters]
        with eval_mode(problem.model):
            for forget, retain in problem.pairs():
                g_u, g_c = problem.gradient(forget), problem.gradient(retain)
                for score, u, c in zip(scores, g_u, g_c, strict=True):
                    score += torch.minimum(u.abs(), c.abs())
        with torch.no_grad():
            for p, score in zip(parameters, scores, strict=True):
                count = round(self.share * p.numel())
                chosen = score.reshape(-1).topk(count, largest=False).indices
                noise = torch.randn(count, generator=problem.generator).to(p.device, p.dtype)
                values = p.reshape(-1).clone()  # a view may not be copied onto p in another layout
                values[chosen] *= noise
                p.copy_(values.view(p.shape))
