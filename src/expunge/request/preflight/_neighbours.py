"""Nearest neighbours by cosine similarity, a block of the table of similarities at a time."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

BLOCK = 1 << 22
"""Similarities held at once: 16 MiB."""


def nearest(queries: Tensor, references: Tensor, block: int = BLOCK) -> tuple[Tensor, Tensor]:
    """For each query [Q, D] the largest cosine with a reference [R, D], and which: [Q], [Q].

    Of equal ones the first counts; a vector of zeros is like nothing (cosine 0).

    >>> nearest(torch.eye(2), torch.tensor([[0.0, 2.0], [1.0, 1.0]]))[1]
    tensor([1, 0])
    """
    rows = max(1, min(len(queries), 1024))
    columns = max(1, block // rows)
    best = torch.full((len(queries),), -torch.inf)
    where = torch.zeros(len(queries), dtype=torch.int64)
    units = F.normalize(queries, dim=1)
    for start in range(0, len(references), columns):
        others = F.normalize(references[start : start + columns], dim=1).T
        for at in range(0, len(units), rows):
            part = slice(at, at + rows)
            value, index = (units[part] @ others).max(dim=1)
            better = value > best[part]
            best[part] = torch.where(better, value, best[part])
            where[part] = torch.where(better, index + start, where[part])
    return best.clamp(-1.0, 1.0), where
