"""The recipe that won the NeurIPS 2023 unlearning challenge: flatten, set apart, repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._kinds import NaturalNumber, Positive
from expunge.methods._method import Batch, MethodWithRetainLoss, Problem, Term


@dataclass(frozen=True)
class ContrastiveRounds(MethodWithRetainLoss):
    """U = KL(1/K ‖ p) on forget in the first epoch, then a contrastive loss; C = L on retain.

    The first epoch makes the outputs on forget data uniform. From then on U spreads their
    similarities to retained examples evenly: with logits z of forget and z' of retained examples,
    which count as constants,

        U = -mean_ij log softmax_j(zᵢ·z'ⱼ/τ).

    Use it for random examples of many classes, where forget outputs should resemble no other.

    Reference: the first place of the NeurIPS 2023 machine unlearning challenge, as described by
    E. Triantafillou et al., *Are we making progress in unlearning? Findings from the first NeurIPS
    unlearning competition*, 2024 (arXiv 2406.09073).

    Deviation: there, rounds of U and of C alternate, each with its own rate; here every step has
    both, weighted by α and β.

    Args:
        temperature: τ, positive.
        flatten: epochs with the first objective, at least 0.
    """

    supports_micro_batches: ClassVar[bool] = False

    temperature: Positive = 1.15
    flatten: NaturalNumber = 1

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        problem.memory["flattening"] = torch.tensor(epoch <= self.flatten)

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        problem.check_exclusive("The challenge's recipe", logits, forget.targets)
        if problem.memory["flattening"]:
            loss = divergence_from_uniform(logits)
        else:
            with torch.no_grad():
                others = problem.logits(retain)
            loss = contrastive_loss(logits, others, self.temperature)
        return Term(loss, saliency=problem.loss(logits, forget.targets))


def divergence_from_uniform(logits: Tensor) -> Tensor:
    """KL(1/K ‖ softmax(logits)), the mean over the batch; 0 for equal logits."""
    log_p = F.log_softmax(logits, dim=-1)
    return (-log_p.mean(dim=-1) - torch.tensor(float(logits.shape[-1])).log()).mean()


def contrastive_loss(logits: Tensor, others: Tensor, temperature: float) -> Tensor:
    """-mean_ij log softmax_j(zᵢ·z'ⱼ/τ) for logits z [B, K] and z' [B', K]."""
    similarities = logits.flatten(1) @ others.flatten(1).T / temperature
    return -F.log_softmax(similarities, dim=1).mean()
