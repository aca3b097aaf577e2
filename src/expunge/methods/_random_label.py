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
        classes = self._classes(logits, forget.targets)
        draws = problem.draw(classes - 1, forget.targets, forget.share)
        other = (forget.targets + 1 + draws) % classes
        return Term(problem.loss(logits, other), saliency=problem.loss(logits, forget.targets))

    def _classes(self, logits: Tensor, targets: Tensor) -> int:
        if targets.is_floating_point() or targets.dim() != 1:
            raise InvalidInput(
                "`random-label` needs one class number per example. "
                f"(got {targets.dtype} of shape {tuple(targets.shape)})"
                " For a regression, take a method that needs its loss alone, such as neg-grad-plus."
            )
        outputs = logits.shape[-1]
        classes = outputs if self.num_classes is None else self.num_classes
        if not 2 <= classes <= outputs:
            raise InvalidInput(
                "`random-label` draws from at least 2 classes that the model has outputs for. "
                f"(got {classes} classes and {outputs} outputs)"
            )
        return classes
