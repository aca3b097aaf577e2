"""A hash of the content of every example, to find the same one in two places."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from expunge.data._batches import as_arrays


def row_hashes(data: Any, labels: Tensor | None = None) -> list[bytes]:
    """SHA-256 of every input of a dataset or array, with its shape and type.

    With ``labels`` [N, ...], equal inputs under different labels have different hashes.

    >>> first, second, third = row_hashes(torch.tensor([[1, 2], [3, 4], [1, 2]]))
    >>> first == third, first == second
    (True, False)
    """
    rows: Iterable[np.ndarray[Any, Any]]
    arrays = as_arrays(data) if isinstance(data, Dataset) else (data, None)
    if arrays is None:
        rows = (_array(data[i][0]) for i in range(len(data)))
    else:
        rows = np.ascontiguousarray(_array(arrays[0]))
    if labels is None:
        return [_hash(row) for row in rows]
    suffixes = (label.tobytes() for label in _array(labels))
    return [_hash(row, suffix) for row, suffix in zip(rows, suffixes, strict=True)]


def _array(values: Any) -> np.ndarray[Any, Any]:
    tensor = torch.as_tensor(values).detach().cpu()
    return (tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor).numpy()


def _hash(row: np.ndarray[Any, Any], suffix: bytes = b"") -> bytes:
    state = hashlib.sha256(f"{row.dtype}{row.shape}".encode())
    state.update(np.ascontiguousarray(row).tobytes())
    state.update(suffix)
    return state.digest()
