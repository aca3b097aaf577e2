"""How similar records are that have nothing to do with each other: the data tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from expunge.request.preflight._neighbours import nearest

QUANTILE = 0.999
REFERENCES = 200
"""Records to draw, in one draw or several."""
ENOUGH = 100_000
"""Similarities that a percentile rests on, at most about twice as many; of more, every n-th."""

Remaining = Mapping[str, tuple[str, Sequence[int]]]
"""By split ("retain"), the part it is in ("train") and its indices there."""
Hashes = Mapping[str, Sequence[bytes]]
"""By part, the content of every record."""


def draw_references(
    labels: Tensor, forgotten: Sequence[int], retain: Sequence[int], seed: int
) -> list[list[int]]:
    """Sets of retained records with the class mix of the forgotten ones, 200 records or more."""
    generator = np.random.default_rng(seed)
    values = labels.cpu().numpy()
    pools = {
        int(label): np.array([i for i in retain if values[i] == label], dtype=np.int64)
        for label in np.unique(values)
    }
    wanted = np.unique(values[list(forgotten)], return_counts=True)
    draws: list[list[int]] = []
    for _ in range(max(1, -(-REFERENCES // len(forgotten)))):
        drawn: list[int] = []
        for label, count in zip(*wanted, strict=True):
            pool = pools[int(label)]
            drawn += generator.permutation(pool)[: min(int(count), len(pool) // 2)].tolist()
        if drawn:
            draws.append(sorted(drawn))
    return draws


def choose_threshold(
    parts: Remaining, vectors: Mapping[str, Tensor], hashes: Hashes, draws: Sequence[Sequence[int]]
) -> tuple[float, int]:
    """The similarity that one record in a thousand has to a draw, and how many it rests on.

    Exact copies of what was drawn do not count. Without anything to compare, nothing is similar
    enough.
    """
    found: list[Tensor] = []
    whole = sum(len(indices) for _, indices in parts.values())
    step = max(1, len(draws) * whole // ENOUGH)
    for turn, drawn in enumerate(draws):
        known = {hashes["train"][index] for index in drawn}
        references = vectors["train"][list(drawn)]
        for part, indices in parts.values():
            chosen = indices[turn % step :: step]
            others = [i for i in chosen if hashes[part][i] not in known]
            if others:
                found.append(nearest(vectors[part][others], references)[0])
    if not found:
        return float("inf"), 0
    pooled = torch.cat(found).double().numpy()
    return float(np.quantile(pooled, QUANTILE, method="higher")), len(pooled)
