"""Samples with the class mix of another set, so that classes do not give membership away."""

from __future__ import annotations

import numpy as np
from torch import Tensor


def match_class_mix(labels: Tensor, like: Tensor, seed: int, *, largest: bool = False) -> list[int]:
    """Indices into ``labels``: as many of each class as ``like`` has, or all there are.

    With ``largest``, the same multiple of every class, as large as the scarcest class allows.

    >>> import torch
    >>> labels = torch.tensor([0, 0, 0, 0, 1, 1, 2])
    >>> match_class_mix(labels, torch.tensor([0, 1]), seed=0, largest=True).__len__()
    4
    """
    random = np.random.default_rng(seed)
    pool = labels.cpu().numpy()
    classes, wanted = np.unique(like.cpu().numpy(), return_counts=True)
    available = np.array([(pool == label).sum() for label in classes])
    present = available > 0
    factor = 1.0
    if largest and present.any():
        factor = max(1.0, float((available[present] / wanted[present]).min()))
    chosen: list[int] = []
    for label, count in zip(classes, wanted, strict=True):
        members = random.permutation(np.flatnonzero(pool == label))
        chosen += members[: int(factor * count + 1e-9)].tolist()
    return sorted(chosen)
