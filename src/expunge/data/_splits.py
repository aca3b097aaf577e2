"""The parts of a dataset: train, validation and test; forget and retain; their seeded draws."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from expunge._errors import InvalidInput
from expunge._kinds import Count, check_arguments
from expunge.data._examples import Examples, Some
from expunge.data._scenario import parse_scenario

if TYPE_CHECKING:
    from expunge.data._encoding import Encoding
    from expunge.data.text import TextSet

TEST_SHARE = 0.2
"""Of data that do not say which examples are for test."""


@dataclass(frozen=True)
class Splits:
    """The three parts of a dataset; ``flip`` says whether a mirror image keeps its label.

    ``encoding`` is the rule that a table was turned into tensors by, learnt from ``train``.
    """

    name: str
    train: Examples
    val: Examples
    test: Examples
    flip: bool
    encoding: Encoding | None = None

    def by_name(self) -> dict[str, Examples]:
        """The three parts by name."""
        return {"train": self.train, "val": self.val, "test": self.test}

    @property
    def in_channels(self) -> int:
        """The size of an input: channels of images, columns of vectors, token ids there are."""
        if self.encoding is not None:
            return self.encoding.size
        inputs = self.train.inputs
        return int(inputs.max()) + 1 if self.train.kind == "tokens" else int(inputs.shape[1])


def hold_out(train: Some, fraction: float = 0.1, seed: int = 0) -> tuple[Some, Some]:
    """Split ``train`` into (train, val), with exactly ``round(fraction * N)`` examples in val.

    ``fraction`` is in [0, 1). The draw depends on ``seed`` and N alone; both parts keep the order
    of ``train``.
    """
    check_arguments(hold_out, locals())
    if not 0 <= fraction < 1:
        raise InvalidInput(f"The validation fraction should be in [0, 1). (got {fraction})")
    held = round(fraction * len(train))
    if held >= len(train):
        raise InvalidInput(
            f"Holding out {fraction} of {len(train)} {train.noun}s leaves none to train on. "
            "Use a smaller fraction."
        )
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(train)))
    return train.subset(order[held:].sort().values), train.subset(order[:held].sort().values)


def split_stratified(labels: Tensor, fraction: float, seed: int = 0) -> tuple[list[int], list[int]]:
    """Indices (rest, held) with ``round(fraction * n)`` of the n examples of every class held.

    A class of two examples or more has at least one on either side; a single one stays in rest.
    """
    rng = np.random.default_rng(seed)
    values = labels.cpu().numpy()
    held: list[int] = []
    for label in np.unique(values):
        members = np.flatnonzero(values == label)
        count = min(max(round(fraction * len(members)), 1), len(members) - 1)
        held += rng.permutation(members)[:count].tolist()
    return sorted(set(range(len(labels))) - set(held)), sorted(held)


def draw_val(whole: Examples, wanted: int, seed: int = 0) -> tuple[list[int], list[int]]:
    """Indices (rest, val): ``wanted`` or at most half of ``whole`` in val, with its class mix."""
    return split_off(whole, min(max(wanted, 1) / max(len(whole), 1), 0.5), seed)


def split_off(
    data: Examples, share: float = TEST_SHARE, seed: int = 0
) -> tuple[list[int], list[int]]:
    """Indices (rest, held), with that share of every class held; of a regression, of all."""
    if not data.is_regression:
        return split_stratified(data.labels, share, seed)
    order = np.random.default_rng(seed).permutation(len(data)).tolist()
    held = round(share * len(data))
    return sorted(order[held:]), sorted(order[:held])


def thin_out(train: Some, limit: Count, seed: int = 0) -> Some:
    """``limit`` examples of ``train``, with class counts as equal as the data allow."""
    check_arguments(thin_out, locals())
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(train))
    labels = train.labels.cpu().numpy()[order]
    position = np.empty(len(train), dtype=np.int64)  # among the examples of its class
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


def select(train: Examples | TextSet, forget: Iterable[int]) -> Selection:
    """Split ``train`` into ``forget`` and the rest, which must not be empty."""
    mask = torch.zeros(len(train), dtype=torch.bool)
    mask[torch.tensor(list(forget), dtype=torch.int64)] = True
    if mask.all():
        raise InvalidInput(
            f"Some {train.noun}s should be left to retain. (got all {len(train)} to forget) "
            "To forget everything, discard the model."
        )
    return Selection(mask.nonzero()[:, 0], (~mask).nonzero()[:, 0])


@dataclass(frozen=True)
class Division:
    """A dataset whose training part a scenario has divided."""

    splits: Splits
    forget: Examples
    retain: Examples


def divide(splits: Splits, scenario: str, seed: int) -> Division:
    """Divide the training part by a scenario such as ``random:0.1``; the seed decides its draws."""
    check_arguments(divide, locals())
    chosen = parse_scenario(scenario).pick(splits.train, seed)
    train = splits.train
    return Division(splits, train.subset(chosen.forget), train.subset(chosen.retain))
