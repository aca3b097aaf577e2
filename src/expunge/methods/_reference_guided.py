"""ReGUn: distil forget data towards the mean output on unseen data (Mirlach et al., 2026)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._kinds import Count
from expunge.methods._method import Batch, MethodWithRetainLoss, Problem, Term

Reference = Literal["batch", "class"]


@dataclass(frozen=True)
class ReferenceGuided(MethodWithRetainLoss):
    """U = KL(q ‖ p(x)) on forget, q a mean output M₀ has on unseen data; C = L on retain.

    M₀ is the initial model, frozen in eval mode. The unseen data have the classes of the forget
    set: with q_c the mean output on unseen data of class c, and h_c the share of c in the forget
    set,

        ``batch``: q = Σ_c h_c q_c for every x;  ``class``: q = q_y for an x of class y.

    q does not change during a run. A class of which there are no unseen data has the mean output
    on all of them.

    Use it where there are unseen data, and one mean output per forget set is enough.

    Reference: J. Mirlach, S. Laguna, J. E. Vogt, *Reference-Guided Machine Unlearning*, 2026
    (arXiv 2603.11210). ``batch`` is the reference distribution of the paper.

    Deviation: the paper draws unseen examples with the class counts of each mini-batch. Here the
    counts are those of the whole forget set, which is their expectation, and the mean is over all
    unseen examples (at most ``sample``), so that a step does not depend on how a batch is divided.
    Classes of which nothing is retained get no probability: the initial model does know them, and
    its outputs on unseen data of such a class are not those of a model that does not.
    ``class`` is ours.

    Args:
        reference: ``batch`` or ``class``.
        sample: at most this many unseen examples are passed through the model.
    """

    reference: Reference = "batch"
    sample: Count = 2000

    needs_unseen: ClassVar[bool] = True

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        """Make the references [K, K], one for each class, before the first epoch."""
        if "references" in problem.memory:
            return
        logits, labels = problem.predict("unseen", self.sample, initial=True)
        references = class_references(F.softmax(logits.double(), dim=1), labels)
        if self.reference == "batch":
            mixed = mix_references(references, problem.splits.labels("forget"))
            references = mixed.repeat(len(references), 1)
        references = without_lost_classes(references, problem.splits.labels("retain"))
        problem.memory["references"] = references

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        references = problem.memory["references"].to(logits)[forget.targets]
        divergence = F.kl_div(F.log_softmax(logits, dim=1), references, reduction="batchmean")
        return Term(divergence, saliency=problem.loss(logits, forget.targets))


def class_references(probabilities: Tensor, labels: Tensor) -> Tensor:
    """Row c [K, K]: the mean of ``probabilities`` [M, K] with label c; of all, if none has it."""
    classes = probabilities.shape[1]
    rows = [probabilities[labels == c] for c in range(classes)]
    return torch.stack([(row if len(row) else probabilities).mean(dim=0) for row in rows])


def mix_references(references: Tensor, labels: Tensor) -> Tensor:
    """The mean [K] of the rows of ``references`` [K, K], weighted by the number of each label."""
    counts = torch.bincount(labels, minlength=len(references)).to(references)
    return counts @ references / counts.sum()


def without_lost_classes(references: Tensor, retained: Tensor) -> Tensor:
    """Rows of ``references`` [C, K] without probability for classes not in ``retained`` labels."""
    kept = torch.isin(torch.arange(references.shape[1]), retained)
    references = torch.where(kept, references, 0.0)
    return references / references.sum(dim=1, keepdim=True)
