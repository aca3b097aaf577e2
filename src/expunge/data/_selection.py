"""The images to forget and to retain: indices into the training part, and the divided data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.data._images import ImageSet
from expunge.data._scenario import parse_scenario
from expunge.data._splits import Splits


@dataclass(frozen=True, eq=False)
class Selection:
    """Sorted int64 indices into the training part; together they are all of it."""

    forget: Tensor
    retain: Tensor


def draw(members: Sequence[int], fraction: float, seed: int) -> list[int]:
    """Draw ``round(fraction * n)`` of the n members, at least one, sorted."""
    count = max(1, round(fraction * len(members)))
    chosen = np.random.default_rng(seed).permutation(np.asarray(members))[:count]
    return sorted(chosen.tolist())


def select(train: ImageSet, forget: Iterable[int]) -> Selection:
    """Split ``train`` into ``forget`` and the rest, which must not be empty."""
    mask = torch.zeros(len(train), dtype=torch.bool)
    mask[torch.tensor(list(forget), dtype=torch.int64)] = True
    if mask.all():
        raise InvalidInput(
            f"Some images should be left to retain. (got all {len(train)} to forget) "
            "To forget everything, discard the model."
        )
    return Selection(mask.nonzero()[:, 0], (~mask).nonzero()[:, 0])


@dataclass(frozen=True)
class Division:
    """A dataset whose training part a scenario has divided."""

    splits: Splits
    forget: ImageSet
    retain: ImageSet


def divide(splits: Splits, scenario: str, seed: int) -> Division:
    """Divide the training part by a scenario such as ``random:0.1``; the seed decides its draws."""
    chosen = parse_scenario(scenario).pick(splits.train, seed)
    train = splits.train
    return Division(splits, train.subset(chosen.forget), train.subset(chosen.retain))
