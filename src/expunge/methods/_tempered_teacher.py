"""LoTUS: distil the initial model, softened on forget data (Spartalis et al., 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from expunge._kinds import Count, Positive
from expunge.methods._method import Batch, Method, Problem, Term

LEVELS = 2**24
"""Uniform random numbers are (k + 1/2)/LEVELS: never 0 or 1, where the Gumbel noise is infinite."""


@dataclass(frozen=True)
class TemperedTeacher(Method):
    """U = H(s, p) on forget, s = softmax((z₀ + g)/τ); C = H(h, p) on retain, h one-hot at the top.

    H(t, p) = -Σ_c t_c log p_c is the cross-entropy, the mean over the batch. z₀ are the logits of
    the initial model and g is fresh Gumbel noise, so that h, one-hot at the largest z₀ + g, is a
    draw from the initial model's output, and s a smoothed one. The temperature follows how much
    better forget data are predicted than unseen data: before each epoch

        τ = exp(``gain`` · (accuracy of the model on forget - of the initial one on unseen data)),

    accuracies in [0, 1]. Above 1 it smooths the targets, below 1 it sharpens them.

    Use it where there are unseen data and the initial model is a teacher worth keeping, as for
    large ones with few retained data.

    Reference: C. N. Spartalis, T. Semertzidis, E. Gavves, P. Daras, *LoTUS: Large-Scale Machine
    Unlearning with a Taste of Uncertainty*, CVPR 2025 (arXiv 2503.18314).

    Deviation: the released code ends a run as soon as the accuracy on forget data is a point below
    that on unseen data; here the run goes on, with τ < 1, which brings the accuracy back. Unseen
    data are those of the classes to forget. In class unlearning the publication sets the accuracy
    on unseen data to 0; here it is 0 for every class of which nothing is retained. Forget and
    retain data have a batch each, instead of the batches of their union with 30 % of the retain
    set.

    Args:
        gain: α of the paper; the released scripts have 2, and 8 for ResNet18 on CIFAR-10.
        noise: whether there is Gumbel noise; without, s is a plain softmax and h the argmax.
        sample: at most this many unseen examples are passed through the model.
    """

    gain: Positive = 2.0
    noise: bool = True
    sample: Count = 2000

    needs_unseen: ClassVar[bool] = True

    def begin_epoch(self, problem: Problem, epoch: int, epochs: int) -> None:
        """Set the temperature by the accuracy that is left to lose."""
        memory = problem.memory
        if "unseen accuracy" not in memory:
            logits, labels = problem.predict("unseen", self.sample, initial=True)
            right = logits.argmax(dim=1) == labels
            known = torch.isin(labels, problem.splits.labels("retain"))
            memory["unseen accuracy"] = (right & known).double().mean()
        logits, labels = problem.predict("forget")
        accuracy = (logits.argmax(dim=1) == labels).double().mean()
        memory["temperature"] = torch.exp(self.gain * (accuracy - memory["unseen accuracy"]))

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        temperature = float(problem.memory["temperature"])
        targets = F.softmax(self._scores(problem, forget) / temperature, dim=1)
        return Term(F.cross_entropy(logits, targets), saliency=problem.loss(logits, forget.targets))

    def constraint(self, problem: Problem, forget: Batch, retain: Batch) -> Tensor:
        return F.cross_entropy(problem.logits(retain), self._scores(problem, retain).argmax(dim=1))

    def _scores(self, problem: Problem, batch: Batch) -> Tensor:
        """z₀ + g [B, K], or z₀."""
        logits = problem.initial_logits(batch)
        if not self.noise:
            return logits
        return logits + gumbel_noise(problem.draw(LEVELS, logits, batch.share)).to(logits)


def gumbel_noise(draws: Tensor) -> Tensor:
    """-log(-log u) in float64, from integers uniform in 0..LEVELS-1, u = (k + 1/2)/LEVELS."""
    uniform = (draws.double() + 0.5) / LEVELS
    return -torch.log(-torch.log(uniform))
