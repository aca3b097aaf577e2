"""DELETE: keep everything the model says of forget data but their label (Zhou et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from expunge.methods._method import Batch, Method, Problem, Term


@dataclass(frozen=True)
class MaskedTeacher(Method):
    """U = KL(t‖p) on forget, t the initial model's output without the label's class; no constraint.

    t = softmax(z₀) with z₀ at the label set to -∞: the label loses its probability, and the other
    classes keep their proportions, which is what holds the model together without retained data.

    Use it for whole classes where no retained data are at hand.

    Reference: Y. Zhou, D. Zheng, Q. Mo, R. Lu, K.-Y. Lin, W.-S. Zheng, *Decoupled Distillation to
    Erase: A General Unlearning Method for Any Class-centric Tasks*, CVPR 2025 (arXiv 2503.23751).
    It is for whole classes; of examples whose class is retained, the ideal model does know the
    label.
    """

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        labels = forget.targets
        problem.check_one_class("masked-teacher", logits, labels)
        initial = problem.initial_logits(forget)
        targets = F.softmax(initial.scatter(1, labels[:, None], -torch.inf), dim=1)
        divergence = F.kl_div(F.log_softmax(logits, dim=1), targets, reduction="batchmean")
        return Term(divergence, saliency=problem.loss(logits, labels))
