"""Fisher forgetting: noise where retained data leave room for it (Golatkar et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from expunge._kinds import Positive
from expunge.data import Batch
from expunge.methods._fine_tune import OneShot
from expunge.methods._problem import Problem, eval_mode

LEVELS = 2**24
"""Uniform random numbers are (k + 1/2)/LEVELS."""
FLOOR = 1e-8
"""Added to the Fisher information, so that a weight without any gets noise that is finite."""


@dataclass(frozen=True)
class FisherNoise(OneShot):
    """θ ← θ + s·F^(-1/4)·ε, ε ~ N(0, 1), F the diagonal Fisher information on retain; no steps.

    What retained data do not need is drowned in noise. F = E (∂ log p_y/∂θ)² with y drawn from the
    model's own output, so that the squared gradient of a batch's mean, times its size, estimates it
    without bias; in eval mode, over as many retain batches as the forget set has.

    Use it where no gradient steps are wanted, and some loss of accuracy can be borne.

    Reference: A. Golatkar, A. Achille, S. Soatto, *Eternal Sunshine of the Spotless Net*, CVPR 2020
    (arXiv 1911.04933), its Fisher forgetting: s is (λσ²)^(1/4) there.

    Args:
        scale: s, positive.
        repair: fine-tune on retain afterwards, as FT does.
    """

    scale: Positive = 1e-3

    def prepare(self, problem: Problem) -> None:
        parameters = problem.parameters
        information = [torch.zeros_like(p) for p in parameters]
        batches = 0
        with eval_mode(problem.model):
            for _, retain in problem.pairs():
                batches += 1
                own = retain._replace(targets=labels_of_the_model(problem, retain))
                gradients = problem.gradient(own)
                size = float(len(own.targets) if own.share is None else own.share.total)
                torch._foreach_addcmul_(information, gradients, gradients, value=size)
        with torch.no_grad():
            for p, sums in zip(parameters, information, strict=True):
                noise = torch.randn(p.shape, generator=problem.generator).to(p.device, p.dtype)
                p.add_(self.scale * noise / (sums / batches + FLOOR).sqrt().sqrt())


@torch.no_grad()
def labels_of_the_model(problem: Problem, batch: Batch) -> Tensor:
    """A class for each example [B], drawn from the model's output."""
    logits = problem.logits(batch)
    problem.check_one_class("fisher-noise", logits, batch.targets)
    drawn = (problem.draw(LEVELS, batch.targets, batch.share).double() + 0.5) / LEVELS
    reached = logits.double().softmax(dim=1).cumsum(dim=1) < drawn[:, None]
    return reached.sum(dim=1).clamp_max(logits.shape[1] - 1)
