"""Test examples that are training examples too."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from expunge._errors import InvalidInput
from expunge.data import ImageSet
from expunge.evaluation import (
    check_overlap,
)


def images(*levels: int) -> ImageSet:
    pixels = torch.tensor(levels, dtype=torch.uint8).reshape(-1, 1, 1, 1).expand(-1, 3, 4, 4)
    return ImageSet(pixels, torch.zeros(len(levels), dtype=torch.int64), ["a", "b"])


def test_test_images_seen_in_training_are_counted_and_refused() -> None:
    parts = {"forget": images(1, 2), "retain": images(3, 4, 5)}
    with pytest.raises(InvalidInput, match=r"3 of 4 test .*\(1 in forget, 2 in retain\)"):
        check_overlap(parts, images(2, 3, 3, 9))
    found = check_overlap(parts, images(2, 3, 3, 9), allow_overlap=True)
    assert (found.indices, dict(found.counts)) == ((0, 1, 2), {"forget": 1, "retain": 2})
    assert not check_overlap(parts, images(7, 8))


def test_overlap_of_arrays_and_other_data_sets() -> None:
    rows = torch.randn(6, 3)
    labelled = torch.utils.data.Subset(TensorDataset(rows, torch.zeros(6)), [0, 1])
    assert check_overlap({"train": rows.numpy()}, labelled, allow_overlap=True).indices == (0, 1)
    pairs = [(rows[0], 0), (rows[0] + 1, 1)]
    assert check_overlap({"train": rows}, Listed(pairs), allow_overlap=True).indices == (0,)


class Listed(torch.utils.data.Dataset[tuple[Tensor, int]]):
    def __init__(self, pairs: list[tuple[Tensor, int]]) -> None:
        self.pairs = pairs

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.pairs[index]
