"""CE-U: distil from the model itself with the tokens ruled out (Yang, 2025)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._kinds import NaturalNumber
from expunge.methods._token_method import Batch, Problem, Term, TokenMethod
from expunge.methods._tokens import IGNORED, count_of, labelled_rows


@dataclass(frozen=True)
class CEU(TokenMethod):
    """U = H(softmax(z with z_y = -∞), π) over the labelled forget tokens; C = NLL of retain tokens.

    z are the current logits, held fixed in the target, and y is the token to forget; H is the
    cross-entropy, a mean over the labelled tokens of the batch without the first ``skip`` of each
    sequence. With p = π(y_t | y_<t) the gradient by z is p at y and -p·q elsewhere, q the target:
    strong where the token is certain, gone where it is forgotten, never larger than √2.

    Use it where there is no memory for an initial model, or no retain data: it was published
    without a retain loss, ``CEU(skip=1, retain="none")``. ``skip=1`` leaves the first token of an
    answer alone, which says little about it.

    Reference: B. Yang, *CE-U: Cross Entropy Unlearning*, 2025 (arXiv 2503.01224).
    """

    skip: NaturalNumber = 0

    def size(self, name: str, batch: Batch) -> float:
        if name != "objective":
            return super().size(name, batch)
        return count_of(self._without_first(batch.targets))

    def forget_loss(self, problem: Problem, forget: Batch) -> Term:
        logits = problem.logits(forget)
        rows, tokens = labelled_rows(logits, self._without_first(forget.targets))
        target = rows.detach().scatter(1, tokens[:, None], float("-inf")).softmax(dim=-1)
        everything = labelled_rows(logits, forget.targets) if self.skip else (rows, tokens)
        return Term(F.cross_entropy(rows, target), saliency=F.cross_entropy(*everything))

    def _without_first(self, labels: Tensor) -> Tensor:
        """Labels [B, T] with the first ``skip`` of each sequence ignored."""
        if not self.skip or labels.dim() != 2:
            return labels
        count = (labels[:, 1:] != IGNORED).cumsum(dim=1)
        first = torch.cat([torch.zeros_like(labels[:, :1]), count], dim=1) <= self.skip
        return labels.masked_fill(first, IGNORED)
