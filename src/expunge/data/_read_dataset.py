"""A user's datasets, read into memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Subset

from expunge._errors import DataError, InvalidInput
from expunge._kinds import is_map_style
from expunge.data._batches import as_arrays
from expunge.data._examples import Examples, ImageSet, made_from

READ_TWICE = 16
"""This many examples are read twice: if a second reading differs, the dataset is random."""
SPLITS = ("train", "val", "test")


def read_splits(given: Any, source: str) -> dict[str, Examples]:
    """(train, test), (train, val, test), or a mapping or object with these, read into memory."""
    sets = {
        split: read_dataset(data, split)
        for split, data in _name_splits(given, source).items()
        if data is not None
    }
    longest = max((data.classes for data in sets.values()), key=len)
    for split, data in sets.items():
        if data.classes != longest[: data.num_classes]:
            raise DataError(
                f"{source}: train, val and test should have the same classes. ({split} has "
                f"{', '.join(data.classes[:5])}, another {', '.join(longest[:5])})"
            )
        sets[split] = type(data)(data.inputs, data.labels, longest, data.names)
    return sets


def _name_splits(given: Any, source: str) -> dict[str, Any]:
    """The splits by name, whatever container they come in."""
    if isinstance(given, Mapping):
        splits = {split: given.get(split) for split in SPLITS}
    elif isinstance(given, tuple | list) and len(given) in (2, 3):
        names = SPLITS if len(given) == 3 else ("train", "test")
        splits = dict(zip(names, given, strict=True))
    else:
        splits = {split: getattr(given, split, None) for split in SPLITS}
    missing = [split for split in ("train", "test") if splits.get(split) is None]
    if missing:
        raise InvalidInput(
            f"{source} should return (train, test), (train, val, test), or a dict or object with "
            f"these. (got {type(given).__name__} without {' and '.join(missing)})"
        )
    return splits


def read_dataset(data: Any, split: str) -> Examples:
    """``data`` as an :class:`~expunge.ImageSet` (uint8 images) or as :class:`Examples`."""
    if isinstance(data, Examples) and as_arrays(data) is not None:
        return data
    if not is_map_style(data):
        raise InvalidInput(
            f"The {split} data should be a map-style dataset of (input, label). "
            f"(got {type(data).__name__})"
        )
    if not hasattr(data, "__len__") or len(data) == 0:
        raise DataError(f"The {split} data should hold examples. (got none)")
    inputs, labels = _read_tensors(data, split)
    named = _classes_of(data) or []
    unnamed = [str(label) for label in range(len(named), int(labels.max()) + 1)]
    kind = ImageSet if inputs.dtype == torch.uint8 and inputs.ndim == 4 else Examples
    return made_from(f"The {split} data", kind, inputs, labels, [*named, *unnamed], _names_of(data))


def _read_tensors(data: Any, split: str) -> tuple[Tensor, Tensor]:
    # Datasets of tensors are taken whole; others are read example by example.
    arrays = as_arrays(data)
    if arrays is None:
        pairs = [_as_pair(data[index], split, index) for index in range(len(data))]
        _check_repeatable(data, split, [x for x, _ in pairs[:READ_TWICE]])
        inputs = _stack([x for x, _ in pairs], split)
        labels = torch.tensor([y for _, y in pairs])
    else:
        inputs, given_labels = arrays
        if given_labels.ndim != 1 or given_labels.is_floating_point():
            raise DataError(
                f"The {split} data should have one class number per example. "
                f"(got {given_labels.dtype} of shape {list(given_labels.shape)})"
            )
        labels = given_labels.to(torch.int64)
    # Floats should be finite.
    if inputs.is_floating_point():
        inputs = inputs.float()
        not_finite = (~torch.isfinite(inputs.flatten(1)).all(dim=1)).nonzero()
        if len(not_finite):
            raise DataError(
                f"The {split} data should be finite. (NaN or infinity at index "
                f"{int(not_finite[0])})"
            )
    if inputs.dtype == torch.uint8 and inputs.ndim == 3:
        inputs = inputs[:, None]  # grey images without a channel axis
    return inputs.detach().cpu().contiguous(), labels.cpu()


def _as_pair(item: Any, split: str, index: int) -> tuple[Tensor, int]:
    if not isinstance(item, tuple | list) or len(item) < 2:
        raise DataError(
            f"The {split} data should yield pairs (input, label). "
            f"(got {type(item).__name__} at index {index})"
        )
    x, y = item[0], torch.as_tensor(item[1])
    if y.numel() != 1 or y.is_floating_point():
        raise DataError(
            f"The {split} data should have one class number per example. "
            f"(got {item[1]!r} at index {index})"
        )
    return _as_tensor(x, split, index), int(y)


def _as_tensor(x: Any, split: str, index: int) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach()
    try:
        values = np.array(x)
        is_pil = hasattr(x, "getbands") and values.ndim == 3  # a PIL image has its channels last
        return torch.from_numpy(
            np.ascontiguousarray(values.transpose(2, 0, 1)) if is_pil else values
        )
    except (TypeError, ValueError) as error:
        raise DataError(
            f"The {split} data should yield tensors, arrays or images. "
            f"(got {type(x).__name__} at index {index})"
        ) from error


def _stack(inputs: list[Tensor], split: str) -> Tensor:
    first = inputs[0]
    for index, x in enumerate(inputs):
        if x.shape != first.shape or x.dtype != first.dtype:
            raise DataError(
                f"The {split} data should be of one shape and type, {list(first.shape)} "
                f"{first.dtype}. (got {list(x.shape)} {x.dtype} at index {index}) Resize them in "
                "the factory."
            )
    return torch.stack(inputs)


def _check_repeatable(data: Any, split: str, first_reading: list[Tensor]) -> None:
    for index, x in enumerate(first_reading):
        second = _as_pair(data[index], split, index)[0]
        if not torch.equal(x.nan_to_num(), second.nan_to_num()):
            raise DataError(
                f"The {split} data should be the same every time they are read. (index {index} "
                "changed) Leave random augmentation out of the factory; use `augment` instead."
            )


def _names_of(data: Any) -> list[str] | None:
    """Names of the examples: ``data.names``, or the files of a torchvision folder."""
    if isinstance(data, Subset):
        names = _names_of(data.dataset)
        return None if names is None else [names[int(index)] for index in data.indices]
    if getattr(data, "names", None) is not None:
        return [str(name) for name in data.names]
    samples = getattr(data, "samples", None)
    if isinstance(samples, list) and samples and isinstance(samples[0], tuple):
        root = Path(str(getattr(data, "root", "")))
        paths = [Path(str(sample[0])) for sample in samples]
        below = (path.relative_to(root) if path.is_relative_to(root) else path for path in paths)
        return [path.as_posix() for path in below]
    return None


def _classes_of(data: Any) -> list[str] | None:
    """Class names that the dataset has as an attribute, if any."""
    if isinstance(data, Subset):
        return _classes_of(data.dataset)
    classes = getattr(data, "classes", None)
    return [str(name) for name in classes] if isinstance(classes, list | tuple) else None
