"""One split of the data in memory, and how a user's dataset is read into it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, Subset, TensorDataset

from expunge._errors import DataError, InvalidInput
from expunge.data import ImageSet
from expunge.data._batches import as_arrays
from expunge.data._images import Indices, as_index, check_labels
from expunge.data.text._text_examples import TextExamples

READ_TWICE = 16
"""This many examples are read twice: if a second reading differs, the dataset is random."""


class Examples(TensorDataset):
    """Inputs of any shape with their labels, with the interface of an :class:`~expunge.ImageSet`.

    Args:
        inputs: ``[N, ...]`` of any type.
        labels: ``int64`` of shape ``[N]``, each in ``0..len(classes)-1``.
        classes: The name of every class, in label order.
        names: A file name or id for every example, or None.

    >>> pair = Examples(torch.rand(2, 3), torch.tensor([1, 0]), ("a", "b"), ("x", "y"))
    >>> len(pair), pair.num_classes, pair[0][1], pair.subset([1]).names
    (2, 2, tensor(1), ('y',))
    """

    def __init__(
        self,
        inputs: Tensor,
        labels: Tensor,
        classes: Sequence[str],
        names: Sequence[str] | None = None,
    ) -> None:
        check_labels(labels, classes, names, len(inputs), "example")
        super().__init__(inputs, labels)
        self.inputs, self.labels = inputs, labels
        self.classes = tuple(classes)
        self.names = None if names is None else tuple(names)

    def __repr__(self) -> str:
        shape = tuple(self.inputs.shape[1:])
        return f"Examples({len(self)} of {shape}, {self.num_classes} classes)"

    @property
    def num_classes(self) -> int:
        """Number of classes, including those without an example."""
        return len(self.classes)

    def subset(self, indices: Indices) -> Examples:
        """The examples at ``indices``, in that order, with their names and all classes."""
        chosen = as_index(indices, len(self))
        names = None if self.names is None else [self.names[i] for i in chosen.tolist()]
        return Examples(self.inputs[chosen], self.labels[chosen], self.classes, names)

    def fingerprint(self) -> str:
        """SHA-256 over type, shape, inputs and labels: equal data, equal fingerprint."""
        digest = hashlib.sha256(f"{self.inputs.dtype}{tuple(self.inputs.shape)}".encode())
        for tensor in (self.inputs, self.labels):
            flat = tensor.cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data)
        return digest.hexdigest()


InMemoryData = ImageSet | Examples | TextExamples
"""One split in memory: uint8 images, texts, or examples of any other kind."""


def inputs_of(data: InMemoryData) -> Tensor:
    """All inputs, [N, ...]."""
    return data.images if isinstance(data, ImageSet) else data.inputs


def scaled_to_unit(data: InMemoryData) -> Examples:
    """The same examples as floats x / 255."""
    return Examples(inputs_of(data).float() / 255, data.labels, data.classes, data.names)


def read_dataset(data: Any, split: str, classes: Sequence[str] | None = None) -> InMemoryData:
    """``data`` as an :class:`~expunge.ImageSet` (uint8 images) or as :class:`Examples`.

    ``split`` ("train", "val" or "test") is named in error messages. ``classes`` default to the
    ``classes`` attribute of the dataset, or else to the labels that occur.
    """
    if isinstance(data, ImageSet | Examples) and as_arrays(data) is not None:
        return data
    if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__"):
        raise InvalidInput(
            f"The {split} data should be a map-style dataset of (input, label). "
            f"(got {type(data).__name__})"
        )
    if not hasattr(data, "__len__") or len(data) == 0:
        raise DataError(f"The {split} data should hold examples. (got none)")
    inputs, labels = _read_tensors(data, split)
    named = list(classes or _classes_of(data) or [])
    unnamed = [str(label) for label in range(len(named), int(labels.max()) + 1)]
    kind = ImageSet if inputs.dtype == torch.uint8 and inputs.ndim == 4 else Examples
    try:
        return kind(inputs, labels, [*named, *unnamed], _names_of(data))
    except InvalidInput as error:
        raise DataError(f"The {split} data: {error}") from error


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
        return [_relative_to(root, str(sample[0])) for sample in samples]
    return None


def _classes_of(data: Any) -> list[str] | None:
    """Class names that the dataset has as an attribute, if any."""
    if isinstance(data, Subset):
        return _classes_of(data.dataset)
    classes = getattr(data, "classes", None)
    return [str(name) for name in classes] if isinstance(classes, list | tuple) else None


def _relative_to(root: Path, name: str) -> str:
    path = Path(name)
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else name
