"""A model whose every answer is known, and data for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from expunge import ImageSet


class Says(nn.Module):
    """Predicts what the top left pixel says, plus a shift."""

    def __init__(self, shift: int = 0) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.tensor(float(shift)))
        self.dropout = nn.Dropout(0.9)

    def forward(self, x: Tensor) -> Tensor:
        said = (x[:, 0, 0, 0].float() + self.shift).long() % 4
        return self.dropout(nn.functional.one_hot(said, 4).float())


def answers(said: list[int], labels: list[int]) -> ImageSet:
    images = torch.zeros(len(said), 1, 2, 2, dtype=torch.uint8)
    images[:, 0, 0, 0] = torch.tensor(said, dtype=torch.uint8)
    return ImageSet(images, torch.tensor(labels), ["a", "b", "c", "d"])


FORGET = answers([0, 1, 2, 3, 0], [0, 1, 2, 0, 1])  # 3 of 5 right

RETAIN = answers([0, 1, 2, 3], [0, 1, 2, 0])  # 3 of 4 right

TEST = answers([0, 1, 2, 3, 3, 3, 3, 3], [1, 1, 1, 1, 1, 1, 1, 1])  # 1 of 8 right

SPLITS: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "test": TEST}


class Items(Dataset[Any]):
    def __init__(self, base: ImageSet) -> None:
        self.base = base

    def __len__(self) -> int:
        return len(self.base)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        x, y = self.base[index]
        return x, int(y)
