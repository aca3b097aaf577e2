"""Refuse two sets of data that overlap, as far as that can be determined."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
)

from expunge._errors import InvalidInput
from expunge.data import Data, ImageSet, as_arrays, row_hashes

MAX_HASHED = 2 << 30
"""Bytes of tensors in memory that are compared by content; some seconds."""
WHY = {
    "retain": "what stays in retain is not forgotten",
    "test": "scores on it would not be of unseen data",
    "val": "scores on it would not be of unseen data",
}


def check_disjoint(forget: Data, other: Data, name: str = "retain") -> None:
    """Raise if ``forget`` and ``other`` overlap.

    Detected are: an example that both take from one dataset, through any nesting of ``Subset`` and
    ``ConcatDataset``; and data in memory where at least half of the forget rows (input and label)
    occur in the other: real datasets have some genuine duplicates. Not detected are: copies in
    datasets that load their examples, and loaders with a sampler of their own.
    """
    first, second = _examples(forget), _examples(other)
    if first is None or second is None:
        return
    if first is second:
        raise _overlap(name, "got one dataset for both")
    shared = sorted(_members(first) & _members(second), key=lambda member: member[1])
    if shared:
        raise _overlap(name, f"{len(shared)} shared ids, such as ", [k for _, k in shared])
    _check_rows(first, second, name)


Member = tuple[int, int]
"""An example: the identity of the dataset it comes from in the end, and its index there."""


def _members(data: Dataset[Any]) -> set[Member]:
    """The examples of a dataset; none if it does not know how many there are."""
    try:
        return set(_list_members(data))
    except (TypeError, IndexError):  # no length, or a subset of what is not there
        return set()


def _list_members(data: Dataset[Any]) -> list[Member]:
    if type(data).__getitem__ is Subset.__getitem__:
        subset = cast("Subset[Any]", data)
        whole = _list_members(subset.dataset)
        return [whole[int(index)] for index in subset.indices]
    if isinstance(data, ConcatDataset):
        return [member for part in data.datasets for member in _list_members(part)]
    return [(id(data), index) for index in range(len(cast(Sized, data)))]


def _check_rows(forget: Dataset[Any], other: Dataset[Any], name: str) -> None:
    first, second = _arrays(forget), _arrays(other)
    if first is None or second is None or first[0].shape[1:] != second[0].shape[1:]:
        return
    if sum(inputs.numel() * inputs.element_size() for inputs, _ in (first, second)) > MAX_HASHED:
        return
    rows, others = (row_hashes(*part) for part in (first, second))
    known = set(others)
    copies = [index for index, row in enumerate(rows) if row in known]
    if copies and 2 * len(copies) >= len(rows):
        count = f"{len(copies)} of {len(rows)} forget examples"
        raise _overlap(name, f"{count} are in {name} too, at positions, such as ", copies)


def _overlap(name: str, found: str, shared: Sequence[int] = ()) -> InvalidInput:
    some = ", ".join(map(str, shared[:5]))
    return InvalidInput(f"Forget and {name} should not overlap: {WHY[name]}. ({found}{some})")


def _examples(data: Data) -> Dataset[Any] | None:
    """The dataset that ``data`` goes through completely, if any."""
    if not isinstance(data, DataLoader):
        return data
    whole = isinstance(data.sampler, (RandomSampler, SequentialSampler))
    return data.dataset if whole else None


def _arrays(data: Dataset[Any]) -> tuple[Tensor, Tensor] | None:
    """Inputs and targets in the host's memory; None if they are elsewhere.

    Subclasses may hold duplicates on purpose, as the records of a request do, which reports them.
    """
    root = data
    while isinstance(root, Subset):
        root = root.dataset
    if type(root) not in (ImageSet, TensorDataset) or not len(cast(Sized, data)):
        return None
    arrays = as_arrays(data)
    if arrays is None or any(part.device.type != "cpu" for part in arrays):
        return None
    return arrays[0], torch.as_tensor(arrays[1])
