"""Test examples that are also training examples, found by the hash of their content."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments
from expunge.data import row_hashes

Rows = Dataset[Any] | Tensor | np.ndarray[Any, Any]


@dataclass(frozen=True)
class Overlap:
    """The numbers of test examples that occur in each part of the training set."""

    counts: Mapping[str, int]
    indices: tuple[int, ...]
    """Which test examples occur in any part."""
    size: int
    """Size of the test set."""

    def __bool__(self) -> bool:
        return bool(self.indices)

    def __str__(self) -> str:
        parts = ", ".join(f"{count} in {name}" for name, count in self.counts.items())
        return f"{len(self.indices)} of {self.size} test examples are training examples ({parts})"


def check_overlap(
    train_parts: Mapping[str, Rows], test: Rows, *, allow_overlap: bool = False
) -> Overlap:
    """Compare inputs by SHA-256; an overlap is refused unless ``allow_overlap``.

    Labels are left out: the same image under another label was seen all the same.

    Args:
        train_parts: by name, :class:`~expunge.Examples` or other data sets or arrays [N, ...].
        test: the same for the test set.

    >>> import torch
    >>> train = torch.arange(6).reshape(3, 2)
    >>> print(check_overlap({"retain": train}, train[:1] + 100))
    0 of 1 test examples are training examples (0 in retain)
    """
    check_arguments(check_overlap, locals())
    hashes = row_hashes(test)
    parts = {name: set(row_hashes(part)) for name, part in train_parts.items()}
    overlap = Overlap(
        {name: sum(item in part for item in hashes) for name, part in parts.items()},
        tuple(i for i, item in enumerate(hashes) if any(item in part for part in parts.values())),
        len(hashes),
    )
    if overlap and not allow_overlap:
        raise InvalidInput(
            f"{overlap}, the first at index {overlap.indices[0]}. Scores on them would not be of "
            "unseen data: take them out, or continue with allow_overlap (--allow-overlap)."
        )
    return overlap
