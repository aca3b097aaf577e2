"""SSD: shrink the weights that matter more for forget data than for all data (Foster et al.)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from expunge._kinds import Positive
from expunge.methods._fine_tune import OneShot
from expunge.methods._problem import Problem, eval_mode


@dataclass(frozen=True)
class SelectiveDampening(OneShot):
    """θᵢ ← min(λ Dᵢ/Fᵢ, 1) θᵢ where Fᵢ > α Dᵢ, importances on forget and on all data; no steps.

    The importance of a weight is the mean over batches of its squared gradient of the loss, in eval
    mode: F on forget data, and D on the training data, of which forget is a share.

    Use it for whole classes or few examples, where it should take seconds.

    Reference: J. Foster, S. Schoepf, A. Brintrup, *Fast Machine Unlearning Without Retraining
    Through Selective Synaptic Dampening*, AAAI 2024 (arXiv 2308.07707).

    Deviation: D is taken from as many retain batches as there are forget batches, each set weighted
    by its size. The publication's α = 10 is for classes and few examples: where forget data are a
    tenth of all, no weight can be ten times as important for them as for all.

    Args:
        selection: α, positive.
        dampening: λ, positive.
        repair: fine-tune on retain afterwards, as FT does.
    """

    selection: Positive = 10.0
    dampening: Positive = 1.0

    def prepare(self, problem: Problem) -> None:
        parameters = problem.parameters
        of_forget, of_retain = ([torch.zeros_like(p) for p in parameters] for _ in range(2))
        batches = 0
        with eval_mode(problem.model):
            for forget, retain in problem.pairs():
                batches += 1
                for sums, batch in ((of_forget, forget), (of_retain, retain)):
                    gradients = problem.gradient(batch)
                    torch._foreach_addcmul_(sums, gradients, gradients)
        sizes = [len(problem.splits.labels(split)) for split in ("forget", "retain")]
        share = sizes[0] / sum(sizes)
        with torch.no_grad():
            for p, f, r in zip(parameters, of_forget, of_retain, strict=True):
                own, of_all = f / batches, share * f / batches + (1.0 - share) * r / batches
                factor = (self.dampening * of_all / own).clamp_max(1.0)
                p.copy_(torch.where(own > self.selection * of_all, factor * p, p))
