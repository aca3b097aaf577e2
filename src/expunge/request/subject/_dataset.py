"""A user's map-style dataset, read into memory once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset

from expunge._errors import DataError, InvalidInput
from expunge.data import ImageSet
from expunge.data._batches import as_arrays
from expunge.request.subject._examples import Examples, InMemory

TWICE = 16
"""So many examples are read twice: where they differ, the dataset is random."""


def collect(data: Any, part: str, classes: Sequence[str] | None = None) -> InMemory:
    """``data`` as an :class:`~expunge.ImageSet` (uint8 images) or as :class:`Examples`.

    ``part`` ("train", …) goes into messages; ``classes`` default to the dataset's own attribute,
    or to the labels found.
    """
    if isinstance(data, ImageSet | Examples) and as_arrays(data) is not None:
        return data
    if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__"):
        raise InvalidInput(
            f"The {part} data should be a map-style dataset of (input, label). "
            f"(got {type(data).__name__})"
        )
    if not hasattr(data, "__len__") or len(data) == 0:
        raise DataError(f"The {part} data should hold examples. (got none)")
    inputs, labels = _tensors(data, part)
    names = names_of(data)
    own = list(classes or classes_of(data) or [])
    known = [*own, *(str(label) for label in range(len(own), int(labels.max()) + 1))]
    kind = ImageSet if inputs.dtype == torch.uint8 and inputs.ndim == 4 else Examples
    try:
        return kind(inputs, labels, known, names)
    except InvalidInput as error:
        raise DataError(f"The {part} data: {error}") from error


def _tensors(data: Any, part: str) -> tuple[Tensor, Tensor]:
    arrays = as_arrays(data)
    if arrays is None:
        pairs = [_pair(data[index], part, index) for index in range(len(data))]
        _check_steady(data, part, [x for x, _ in pairs[:TWICE]])
        inputs, labels = _stacked([x for x, _ in pairs], part), torch.tensor([y for _, y in pairs])
    else:
        inputs, given = arrays
        if given.ndim != 1 or given.is_floating_point():
            raise DataError(
                f"The {part} data should have one class number an example. "
                f"(got {given.dtype} of shape {list(given.shape)})"
            )
        labels = given.to(torch.int64)
    if inputs.is_floating_point():
        inputs = inputs.float()
        wrong = (~torch.isfinite(inputs.flatten(1)).all(dim=1)).nonzero()
        if len(wrong):
            raise DataError(
                f"The {part} data should be finite. (NaN or infinity at index {int(wrong[0])})"
            )
    if inputs.dtype == torch.uint8 and inputs.ndim == 3:
        inputs = inputs[:, None]  # grey images without a channel axis
    return inputs.detach().cpu().contiguous(), labels.cpu()


def _pair(item: Any, part: str, index: int) -> tuple[Tensor, int]:
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise DataError(
            f"The {part} data should yield pairs (input, label). "
            f"(got {type(item).__name__} at index {index})"
        )
    x, y = item[0], torch.as_tensor(item[1])
    if y.numel() != 1 or y.is_floating_point():
        raise DataError(
            f"The {part} data should have one class number an example. "
            f"(got {item[1]!r} at index {index})"
        )
    return _tensor(x, part, index), int(y)


def _tensor(x: Any, part: str, index: int) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach()
    try:
        values = np.array(x)
        picture = hasattr(x, "getbands") and values.ndim == 3  # a PIL image has channels last
        return torch.from_numpy(
            np.ascontiguousarray(values.transpose(2, 0, 1)) if picture else values
        )
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The {part} data should yield tensors, arrays or images. "
            f"(got {type(x).__name__} at index {index})"
        ) from error


def _stacked(inputs: list[Tensor], part: str) -> Tensor:
    first = inputs[0]
    for index, x in enumerate(inputs):
        if x.shape != first.shape or x.dtype != first.dtype:
            raise DataError(
                f"The {part} data should be of one shape and type, {list(first.shape)} "
                f"{first.dtype}. (got {list(x.shape)} {x.dtype} at index {index}) Resize them in "
                "the factory."
            )
    return torch.stack(inputs)


def _check_steady(data: Any, part: str, before: list[Tensor]) -> None:
    for index, x in enumerate(before):
        again = _pair(data[index], part, index)[0]
        if not torch.equal(x.nan_to_num(), again.nan_to_num()):
            raise DataError(
                f"The {part} data should be the same at every reading. (index {index} changed) "
                "Leave random augmentation out of the factory; `augment` is there for it."
            )


def names_of(data: Any) -> list[str] | None:
    """Names of the examples: ``data.names``, or the files of a torchvision folder."""
    if isinstance(data, Subset):
        whole = names_of(data.dataset)
        return None if whole is None else [whole[int(index)] for index in data.indices]
    if getattr(data, "names", None) is not None:
        return [str(name) for name in data.names]
    samples = getattr(data, "samples", None)
    if isinstance(samples, list) and samples and isinstance(samples[0], tuple):
        root = Path(str(getattr(data, "root", "")))
        return [_below(root, str(sample[0])) for sample in samples]
    return None


def classes_of(data: Any) -> list[str] | None:
    """The class names a dataset tells, if any."""
    if isinstance(data, Subset):
        return classes_of(data.dataset)
    given = getattr(data, "classes", None)
    return [str(name) for name in given] if isinstance(given, list | tuple) else None


def _below(root: Path, name: str) -> str:
    path = Path(name)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else name
