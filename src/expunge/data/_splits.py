"""Train, validation and test parts, and the seeded draws that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge.data._images import ImageSet


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


def _draw_per_class(labels: Tensor, share: Callable[[int], int], seed: int) -> list[int]:
    """``share(n)`` random indices from each class of n images, sorted."""
    rng = np.random.default_rng(seed)
    values = labels.cpu().numpy()
    drawn: list[int] = []
    for label in np.unique(values):
        members = np.flatnonzero(values == label)
        drawn += rng.permutation(members)[: share(len(members))].tolist()
    return sorted(drawn)
