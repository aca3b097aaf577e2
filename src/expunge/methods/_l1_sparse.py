"""l1-sparse: shrink the weights while keeping what is retained (Jia et al., 2023)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from expunge.methods._method import Batch, MethodWithRetainLoss, Problem, Term


@dataclass(frozen=True)
class L1Sparse(MethodWithRetainLoss):
    """U = ‖θ‖₁, a sum over all parameters; C = L on retain.

    The norm is a sum where losses are means, so it has a small weight: the 5e-4 of the publication.

    Use it for models with more weights than they need: it forgets by pruning, whatever is to be
    forgotten.

    Reference: J. Jia, J. Liu, P. Ram, Y. Yao, G. Liu, Y. Liu, P. Sharma, S. Liu, *Model Sparsity
    Can Simplify Machine Unlearning*, NeurIPS 2023 (arXiv 2304.04934).
    """

    preferred: ClassVar[dict[str, Any]] = {"alpha": 5e-4, "beta": 0.9995}

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        norm = torch.stack([p.abs().sum() for p in problem.parameters]).sum()
        return Term(norm, saliency=problem.saliency(forget))
