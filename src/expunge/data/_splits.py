"""The parts of a dataset: train, validation and test; forget and retain; their seeded draws."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge._options import check_seed
from expunge.data._images import ImageSet
from expunge.data._scenario import parse_scenario


@dataclass(frozen=True)
class Splits:
    """The three parts of a dataset; ``flip`` says whether a mirror image keeps its label."""

    name: str
    train: ImageSet
    val: ImageSet
    test: ImageSet
    flip: bool


def hold_out(train: ImageSet, fraction: float = 0.1, seed: int = 0) -> tuple[ImageSet, ImageSet]:
    """Split ``train`` into (train, val), with exactly ``round(fraction * N)`` images in val.

    ``fraction`` is in [0, 1). The draw depends on ``seed`` and N alone; both parts keep the order
    of ``train``.
    """
    if not 0 <= fraction < 1:
        raise InvalidInput(f"The validation fraction should be in [0, 1). (got {fraction})")
    held = round(fraction * len(train))
    if held >= len(train):
        raise InvalidInput(
            f"Holding out {fraction} of {len(train)} images leaves none to train on. "
            "Use a smaller fraction."
        )
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(train)))
    return train.subset(order[held:].sort().values), train.subset(order[:held].sort().values)


def split_stratified(labels: Tensor, fraction: float, seed: int = 0) -> tuple[list[int], list[int]]:
    """Indices (rest, held) with ``round(fraction * n)`` of the n images of every class held.

    A class of two images or more has at least one on either side; a single image stays in rest.

    >>> split_stratified(torch.tensor([0, 0, 0, 0, 1]), 0.25)
    ([0, 1, 3, 4], [2])
    """

    def share(size: int) -> int:
        return min(max(round(fraction * size), 1), size - 1)

    held = _draw_per_class(labels, share, seed)
    rest = sorted(set(range(len(labels))) - set(held))
    return rest, held


def thin_out(train: ImageSet, limit: int, seed: int = 0) -> ImageSet:
    """``limit`` images of ``train``, with class counts as equal as the data allow.

    Two classes differ by more than one image only where the smaller one is used up.
    """
    if limit < 1:
        raise InvalidInput(f"`limit` should be 1 or more images. (got {limit})")
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(train))
    labels = train.labels.cpu().numpy()[order]
    position = np.empty(len(train), dtype=np.int64)  # an image's position among those of its class
    for label in np.unique(labels):
        members = labels == label
        position[members] = np.arange(members.sum())
    chosen = order[np.argsort(position, kind="stable")[:limit]]
    return train.subset(np.sort(chosen))


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


def select(train: Sized, forget: Iterable[int]) -> Selection:
    """Split ``train`` into ``forget`` and the rest, which must not be empty."""
    mask = torch.zeros(len(train), dtype=torch.bool)
    mask[torch.tensor(list(forget), dtype=torch.int64)] = True
    if mask.all():
        raise InvalidInput(
            f"Some {_what(train)} should be left to retain. (got all {len(train)} to forget) "
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
    check_seed(seed, "scenario_seed")
    chosen = parse_scenario(scenario).pick(splits.train, seed)
    train = splits.train
    return Division(splits, train.subset(chosen.forget), train.subset(chosen.retain))


def _what(train: Sized) -> str:
    return "images" if isinstance(train, ImageSet) else "records"


def _draw_per_class(labels: Tensor, share: Callable[[int], int], seed: int) -> list[int]:
    """``share(n)`` random indices from each class of n images, sorted."""
    rng = np.random.default_rng(seed)
    values = labels.cpu().numpy()
    drawn: list[int] = []
    for label in np.unique(values):
        members = np.flatnonzero(values == label)
        drawn += rng.permutation(members)[: share(len(members))].tolist()
    return sorted(drawn)
