"""FT: continue training on the retained data (Warnecke et al., 2021)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from expunge.data import Batch, Split
from expunge.methods._method import Method
from expunge.methods._problem import Problem
from expunge.update import Term


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
