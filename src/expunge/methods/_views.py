"""Outputs of the initial model averaged over slightly changed inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeVar, cast

from torch import Tensor
from torch.nn import functional as F

from expunge.methods._problem import Problem, SplitName

Part = TypeVar("Part")
ViewKind = Literal["auto", "shifts", "mirrored", "plain"]
SHIFTS = ((1, 2), (-2, -1))
"""Pixels down and to the right, for images of 28 x 28 and more; smaller ones move by one."""
LARGE = 28
SMALL = 8
"""Images with fewer rows or columns than this are left as they are."""


def with_mirrors(method: Part) -> Part:
    """``method`` with mirror images among its views, if it has any and leaves them open."""
    if getattr(method, "views", None) != "auto":
        return method
    mirrored: Part = replace(cast(Any, method), views="mirrored")
    return mirrored


def averaged_log_probabilities(
    problem: Problem, split: SplitName, views: ViewKind = "auto", sample: int | None = None
) -> tuple[Tensor, Tensor]:
    """Log-probabilities [N, K] of the initial model, the mean over views, and labels [N].

    Views are images moved by a pixel or two, and their mirror images where a mirror image keeps
    its label. Inputs that are no images have one view, themselves.
    """
    changes: list[Callable[[Tensor], Tensor] | None] = [None]
    if views != "plain":
        mirrors = views == "mirrored" or (views == "auto" and problem.splits.mirrors)
        sides = (False, True) if mirrors else (False,)
        changes = [partial(_moved, shift=s, mirror=m) for m in sides for s in SHIFTS]
    total: Tensor | None = None
    for change in changes:
        logits, labels = problem.predict(split, sample, initial=True, change=change)
        log_probabilities = F.log_softmax(logits, dim=1)
        total = log_probabilities if total is None else total + log_probabilities
    assert total is not None
    return total / len(changes), labels


def _moved(inputs: Any, shift: tuple[int, int], mirror: bool) -> Any:
    """Images [N, C, H, W] moved by ``shift``, zeros moving in; other inputs unchanged."""
    if isinstance(inputs, Mapping):
        return {name: _moved(part, shift, mirror) for name, part in inputs.items()}
    if inputs.ndim != 4 or min(inputs.shape[2:]) < SMALL:
        return inputs
    height, width = inputs.shape[2:]
    if mirror:
        inputs = inputs.flip(3)
    down, right = shift if min(height, width) >= LARGE else (shift[0] // abs(shift[0]), 0)
    margin = max(abs(down), abs(right))
    padded = F.pad(inputs, (margin, margin, margin, margin))
    top, left = margin - down, margin - right
    return padded[:, :, top : top + height, left : left + width]
