"""The forget loss of PDU: make the likeliest token no likelier than the average one."""

from __future__ import annotations

from dataclasses import dataclass

from torch.nn import functional as F

from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import labelled_rows


@dataclass(frozen=True)
class LogitMargin(TokenMethod):
    """U = (max_v z_v - mean_v z_v)², a mean over the labelled forget tokens; C = NLL on retain.

    z are the logits over the vocabulary. U is 0 where all tokens are equally likely, and never
    less, so a run converges; the model is then uniform about what it forgot, which stands out.

    Use it with ``aggregate=expunge.update.PrimalDual()``, with which it is PDU.

    Reference: T. Entesari et al., *Constrained Entropic Unlearning: A Primal-Dual Framework for
    Large Language Models*, NeurIPS 2025 (arXiv 2506.05314).

    Deviation: published code averages over prompts and padding too, where nothing is predicted.
    """

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        rows, tokens = labelled_rows(problem.logits(forget), forget.targets)
        margins = rows.amax(dim=-1) - rows.mean(dim=-1)
        return Term(margins.square().mean(), saliency=F.cross_entropy(rows, tokens))
