"""FT: continue training on the retained data (Warnecke et al., 2021), and what is based on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from expunge.data import Split
from expunge.methods._method import Batch, Method, Problem, Term


@dataclass(frozen=True)
class FineTune(Method):
    """U = L on retain, no constraint.

    An epoch takes as many retain batches as the forget set has, so that an epoch costs the
    same for all methods.

    Use it as the baseline that any other method has to beat: it forgets little.

    Reference: A. Warnecke, L. Pirch, C. Wressnegger, K. Rieck, *Machine Unlearning of Features and
    Labels*, NDSS 2023 (arXiv 2108.11577).
    """

    objective_over: ClassVar[Split] = "retain"

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        return Term(problem.loss_on(retain), saliency=problem.saliency(forget))


@dataclass(frozen=True)
class OneShot(FineTune):
    """Base of methods whose work is done in ``prepare``: no constraint, and no steps to speak of.

    Args:
        repair: fine-tune on retain afterwards, as FT does; else the weights stay (an optimizer
            without weight decay does not move what has no gradient).
    """

    preferred: ClassVar[dict[str, Any]] = {"epochs": 1}

    repair: bool = False

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        if self.repair:
            return super().objective(problem, forget, retain)
        return Term(0.0 * torch.stack([p.sum() for p in problem.parameters]).sum())
