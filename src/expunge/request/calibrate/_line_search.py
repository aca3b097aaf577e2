"""Part of the way: models on the straight line from the given weights to those of now.

Between a model and one fine-tuned from it accuracy changes smoothly (Wortsman et al., 2022). Where
an epoch went too far, a point before it may be just right, and costs no training.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from expunge.request.calibrate._comparison import Behaviour

Weights = dict[str, Tensor]


@dataclass(frozen=True, eq=False)
class Point:
    """A model on the line: how far along it, its weights, and how it behaves."""

    share: float
    weights: Weights
    seen: Behaviour


def copied(model: nn.Module) -> Weights:
    """All weights and buffers."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def mix(first: Weights, last: Weights, share: float) -> Weights:
    """(1 − t)·first + t·last; whole numbers (counters) are those of ``last``."""
    return {
        name: torch.lerp(first[name], value, share) if value.is_floating_point() else value
        for name, value in last.items()
    }


@torch.no_grad()
def search_line(
    model: nn.Module,
    first: Weights,
    look: Callable[[nn.Module], Behaviour | None],
    fits: Callable[[Behaviour], bool],
    *,
    halvings: int = 5,
) -> Point | None:
    """The best point between ``first`` and ``model`` that ``fits``, by bisection.

    0 is taken to fit and 1 not to. Of the points seen that fit, the one of the smallest distance is
    returned; None where there is none. The model's weights are put back.
    """
    last = copied(model)
    best: Point | None = None
    low, high = 0.0, 1.0
    for _ in range(halvings):
        share = 0.5 * (low + high)
        weights = mix(first, last, share)
        model.load_state_dict(weights)
        seen = look(model)
        if seen is None or not fits(seen):
            high = share
            continue
        low = share
        if best is None or seen.distance < best.seen.distance:
            best = Point(share, weights, seen)
        if seen.indistinguishable:
            break
    model.load_state_dict(last)
    return best
