"""SRL: successive random labelling (Golatkar et al., 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from torch import Tensor

from expunge._errors import InvalidInput
from expunge._kinds import Range
from expunge.methods._method import Batch, MethodWithRetainLoss, Problem, Term


@dataclass(frozen=True)
class RandomLabel(MethodWithRetainLoss):
    """U = L on forget with a fresh random label ≠ y at every visit; C = L on retain.

    The label is uniform over the other classes; ``num_classes`` defaults to the number of the
    model's outputs.

    Use it for classes, at a moderate rate: a robust first choice, which leaves forgotten data less
    certain than unseen ones.

    Reference: A. Golatkar, A. Achille, S. Soatto, *Eternal Sunshine of the Spotless Net: Selective
    Forgetting in Deep Networks*, CVPR 2020 (arXiv 1911.04933).
    """

    num_classes: Annotated[int, Range(2, ends="[)")] | None = None

    def objective(self, problem: Problem, forget: Batch, retain: Batch) -> Term:
        logits = problem.logits(forget)
        problem.check_one_class("random-label", logits, forget.targets)
        outputs = logits.shape[-1]
        classes = outputs if self.num_classes is None else self.num_classes
        if not 2 <= classes <= outputs:
            raise InvalidInput(
                "`random-label` draws from at least 2 classes that the model has outputs for. "
                f"(got {classes} classes and {outputs} outputs)"
            )
        other = other_classes(problem, forget, classes)
        return Term(problem.loss(logits, other), saliency=problem.loss(logits, forget.targets))


def other_classes(problem: Problem, batch: Batch, classes: int) -> Tensor:
    """A class other than the label for each example [B], drawn uniformly."""
    draws = problem.draw(classes - 1, batch.targets, batch.share)
    return (batch.targets + 1 + draws) % classes
