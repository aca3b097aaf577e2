"""A labelled set of images, held in memory as one tensor."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from expunge._errors import DataError, InvalidInput

Indices = Sequence[int] | Tensor | np.ndarray[Any, Any]


class ImageSet(Dataset[tuple[Tensor, Tensor]]):
    """Images and labels of one split: a map-style dataset that also hands out whole tensors.

    Args:
        images: ``uint8`` of shape ``[N, C, H, W]``.
        labels: ``int64`` of shape ``[N]``, each in ``0..len(classes)-1``.
        classes: The name of every class, in label order.
        names: A file name or id for every image, or None.

    >>> blank = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    >>> pair = ImageSet(blank, torch.tensor([1, 0]), ("a", "b"))
    >>> len(pair), pair.shape, pair.num_classes, pair[0][1]
    (2, (1, 8, 8), 2, tensor(1))
    >>> pair.subset([2])
    Traceback (most recent call last):
    expunge._errors.InvalidInput: Image indices should be in 0..1. (got 2)
    """

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        classes: Sequence[str],
        names: Sequence[str] | None = None,
    ) -> None:
        self.images = images
        self.labels = labels
        self.classes = tuple(classes)
        self.names = None if names is None else tuple(names)
        self._check()

    def _check(self) -> None:
        images, labels = self.images, self.labels
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise InvalidInput(
                "`images` should be uint8 of shape [N, C, H, W]. "
                f"(got {images.dtype} of shape {list(images.shape)})"
            )
        check_labels(labels, self.classes, self.names, len(images), "image")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.images[index], self.labels[index]

    def __repr__(self) -> str:
        return f"ImageSet({len(self)} images of {self.shape}, {self.num_classes} classes)"

    @property
    def num_classes(self) -> int:
        """Number of classes, whether or not each has an image."""
        return len(self.classes)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        _, channels, height, width = self.images.shape
        return channels, height, width

    def subset(self, indices: Indices) -> ImageSet:
        """The images at ``indices``, in that order, with their names and all classes."""
        chosen = as_index(indices, len(self))
        names = None if self.names is None else [self.names[i] for i in chosen.tolist()]
        chosen = chosen.to(self.images.device)
        return ImageSet(self.images[chosen], self.labels[chosen], self.classes, names)

    def to(self, device: torch.device | str) -> ImageSet:
        """The same set with its tensors on ``device``."""
        return ImageSet(self.images.to(device), self.labels.to(device), self.classes, self.names)

    def fingerprint(self) -> str:
        """SHA-256 of the shape, the pixels and the labels: equal for equal data."""
        digest = hashlib.sha256(repr(tuple(self.images.shape)).encode())
        for tensor in (self.images, self.labels):
            digest.update(tensor.cpu().contiguous().numpy().data)
        return digest.hexdigest()


def image_set_from(
    source: Path | str,
    images: np.ndarray[Any, Any],
    labels: np.ndarray[Any, Any],
    classes: Sequence[str],
    names: Sequence[str] | None = None,
) -> ImageSet:
    """Make an :class:`ImageSet` of what was read from ``source``; `DataError` if it is invalid."""
    pixels = torch.from_numpy(np.ascontiguousarray(images))
    targets = torch.from_numpy(np.array(labels, dtype=np.int64))
    try:
        return ImageSet(pixels, targets, classes, names)
    except InvalidInput as error:
        raise DataError(f"{source}: {error}") from error


def as_index(indices: Indices, length: int) -> Tensor:
    """``indices`` as int64 on the CPU, all of them in ``0..length-1``."""
    chosen = torch.as_tensor(indices, device="cpu")
    if chosen.numel() == 0:
        return torch.empty(0, dtype=torch.int64)
    if chosen.ndim != 1 or chosen.is_floating_point() or chosen.dtype == torch.bool:
        raise InvalidInput(
            "Image indices should be a flat list of whole numbers. "
            f"(got {chosen.dtype} of shape {list(chosen.shape)})"
        )
    chosen = chosen.to(torch.int64)
    wrong = chosen[(chosen < 0) | (chosen >= length)]
    if len(wrong):
        raise InvalidInput(f"Image indices should be in 0..{length - 1}. (got {int(wrong[0])})")
    return chosen


def check_labels(
    labels: Tensor, classes: Sequence[str], names: Sequence[str] | None, count: int, what: str
) -> None:
    """Raise unless there is a valid label, and a name if any, for each of ``count`` examples."""
    if labels.dtype != torch.int64 or labels.shape != (count,):
        raise InvalidInput(
            f"`labels` should be int64 of shape [{count}], one for every {what}. "
            f"(got {labels.dtype} of shape {list(labels.shape)})"
        )
    if names is not None and len(names) != count:
        raise InvalidInput(
            f"`names` should hold one name for each of {count} {what}s. (got {len(names)})"
        )
    wrong = ((labels < 0) | (labels >= len(classes))).nonzero()
    if len(wrong):
        index = int(wrong[0])
        raise InvalidInput(
            f"labels should be in 0..{len(classes) - 1}. "
            f"(got {int(labels[index])} at index {index})"
        )
