"""Methods that change the weights once, before the first step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from expunge.data import Batch
from expunge.methods._fine_tune import FineTune
from expunge.methods._problem import Problem
from expunge.update import Term


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
