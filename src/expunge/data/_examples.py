"""Labelled examples of one split, held in memory as tensors: images, vectors or token ids."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from expunge._errors import DataError, InvalidInput
from expunge._kinds import check_arguments, check_kind
from expunge._tensors import bytes_of

Indices = Sequence[int] | Tensor | np.ndarray[Any, Any]
InputKind = Literal["images", "vectors", "tokens", "tensors"]
"""uint8 [N, C, H, W]; floats [N, F]; whole numbers [N, L]; anything else."""


class Examples(Dataset[tuple[Tensor, Tensor]]):
    """Inputs of any shape with their labels: a map-style dataset that also hands out whole tensors.

    Args:
        inputs: ``[N, ...]`` of any type.
        labels: ``int64`` of shape ``[N]``, each in ``0..len(classes)-1``; without classes, the
            numbers that a regression predicts, floats of shape ``[N]``.
        classes: The name of every class, in label order; none for a regression.
        names: A file name or id for every example, or None. Several may share one.

    >>> pair = Examples(torch.rand(2, 3), torch.tensor([1, 0]), ("a", "b"), ("x", "y"))
    >>> len(pair), pair.num_classes, pair[0][1], pair.subset([1]).names
    (2, 2, tensor(1), ('y',))
    >>> pair.subset([2])
    Traceback (most recent call last):
    expunge._errors.InvalidInput: Indices should be in 0..1. (got 2)
    """

    noun = "example"
    """What messages call one of them."""

    def __init__(
        self,
        inputs: Tensor,
        labels: Tensor,
        classes: Sequence[str],
        names: Sequence[str] | None = None,
    ) -> None:
        check_arguments(Examples.__init__, locals())
        self.inputs = inputs
        self.labels = labels
        self.classes = tuple(classes)
        self.names = None if names is None else tuple(names)
        # There should be a valid label for every example, and a name if any.
        count = len(inputs) if inputs.ndim else 0
        if names is not None and len(names) != count:
            raise InvalidInput(
                f"`names` should hold one name for each of {count} {self.noun}s. (got {len(names)})"
            )
        numbers = self.is_regression and labels.is_floating_point()
        if labels.shape != (count,) or not (numbers or labels.dtype == torch.int64):
            raise InvalidInput(
                f"`labels` should be {'floats' if numbers else 'int64'} of shape [{count}], one "
                f"for every {self.noun}. (got {labels.dtype} of shape {list(labels.shape)})"
            )
        valid = labels.isfinite() if numbers else (labels >= 0) & (labels < self.num_classes)
        if not valid.all():
            index = int((~valid).nonzero()[0])
            rule = "finite" if numbers else f"in 0..{self.num_classes - 1}"
            raise InvalidInput(
                f"labels should be {rule}. (got {labels[index].item()} at index {index})"
            )

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.inputs[index], self.targets[index]

    def __repr__(self) -> str:
        what = f"{self.num_classes} classes" if self.classes else "regression"
        shape = tuple(self.inputs.shape[1:])
        return f"{type(self).__name__}({len(self)} {self.noun}s of {shape}, {what})"

    @property
    def targets(self) -> Tensor:
        """What a model is trained to predict of every input: its label."""
        return self.labels

    @property
    def num_classes(self) -> int:
        """Number of classes, whether or not each has an example; 0 for a regression."""
        return len(self.classes)

    @property
    def is_regression(self) -> bool:
        """Whether labels are numbers to predict rather than classes."""
        return not self.classes

    @property
    def kind(self) -> InputKind:
        """What the inputs are, by their type and shape."""
        if self.inputs.ndim == 4 and self.inputs.dtype == torch.uint8:
            return "images"
        if self.inputs.ndim != 2:
            return "tensors"
        return "vectors" if self.inputs.is_floating_point() else "tokens"

    @property
    def input_shape(self) -> tuple[str, tuple[int, ...]]:
        """Kind and shape of an input; sequences of tokens may differ in their length."""
        return self.kind, () if self.kind == "tokens" else tuple(self.inputs.shape[1:])

    def subset(self, indices: Indices) -> Self:
        """The examples at ``indices``, in that order, with their names and all classes."""
        chosen = as_index(indices, len(self))
        part = copy.copy(self)
        if self.names is not None:
            part.names = tuple(self.names[i] for i in chosen.tolist())
        chosen = chosen.to(self.inputs.device)
        part.inputs, part.labels = self.inputs[chosen], self.labels[chosen]
        return part

    def to(self, device: torch.device | str) -> Self:
        """The same examples with their tensors on ``device``."""
        moved = copy.copy(self)
        moved.inputs, moved.labels = self.inputs.to(device), self.labels.to(device)
        return moved

    def fingerprint(self) -> str:
        """SHA-256 over type, shape, inputs and labels: equal data, equal fingerprint."""
        digest = hashlib.sha256(self._description().encode())
        for tensor in (self.inputs, self.labels):
            digest.update(bytes_of(tensor))
        return digest.hexdigest()

    def _description(self) -> str:
        return f"{self.inputs.dtype}{tuple(self.inputs.shape)}"


class ImageSet(Examples):
    """Examples whose inputs are images, which can be shown and augmented.

    Args:
        images: ``uint8`` of shape ``[N, C, H, W]``.
        labels, classes, names: as for :class:`Examples`.

    >>> blank = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    >>> pair = ImageSet(blank, torch.tensor([1, 0]), ("a", "b"))
    >>> len(pair), pair.shape, pair.num_classes, pair[0][1]
    (2, (1, 8, 8), 2, tensor(1))
    """

    noun = "image"

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        classes: Sequence[str],
        names: Sequence[str] | None = None,
    ) -> None:
        check_kind("images", Tensor, images)
        if images.dtype != torch.uint8 or images.ndim != 4:
            raise InvalidInput(
                "`images` should be uint8 of shape [N, C, H, W]. "
                f"(got {images.dtype} of shape {list(images.shape)})"
            )
        super().__init__(images, labels, classes, names)

    @property
    def images(self) -> Tensor:
        """The inputs, under the name that says what they are."""
        return self.inputs

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        _, channels, height, width = self.inputs.shape
        return channels, height, width

    def _description(self) -> str:
        return repr(tuple(self.inputs.shape))


Some = TypeVar("Some", bound=Examples)


def made_from(
    source: Path | str,
    kind: type[Some],
    inputs: Tensor | np.ndarray[Any, Any],
    labels: Tensor | np.ndarray[Any, Any],
    classes: Sequence[str],
    names: Sequence[str] | None = None,
) -> Some:
    """Make examples of what was read from ``source``; `DataError` if they are invalid."""
    if isinstance(inputs, np.ndarray):
        inputs = torch.from_numpy(np.ascontiguousarray(inputs))
    targets = torch.tensor(labels) if isinstance(labels, np.ndarray) else labels
    targets = targets if targets.is_floating_point() else targets.long()
    try:
        return kind(inputs, targets, classes, names)
    except InvalidInput as error:
        raise DataError(f"{source}: {error}") from error


def scaled(images: Examples, mean: str = "0", std: str = "1") -> Examples:
    """Images as floats, (x / 255 - ``mean``) / ``std`` per channel, as their model was trained."""
    if images.kind != "images":
        raise InvalidInput(f"`mean` and `std` are for images. (got {images.kind})")
    channels = images.inputs.shape[1]
    values = images.inputs.float() / 255
    columns = []
    for name, text in (("mean", mean), ("std", std)):
        try:
            numbers = [float(number) for number in text.split("+")]
        except ValueError:
            numbers = []
        fits = all(map(math.isfinite, numbers)) and (name == "mean" or min(numbers, default=0) > 0)
        if len(numbers) not in (1, channels) or not fits:
            raise InvalidInput(
                f"`{name}` should be a {'positive ' if name == 'std' else ''}number, or one for "
                f"each of {channels} channels, joined by +. (got {text!r})"
            )
        columns.append(values.new_tensor(numbers).view(1, -1, 1, 1))
    values = (values - columns[0]) / columns[1]
    return Examples(values, images.labels, images.classes, images.names)


def as_index(indices: Indices, length: int) -> Tensor:
    """``indices`` as int64 on the CPU, all of them in ``0..length-1``."""
    check_arguments(as_index, locals())
    chosen = torch.as_tensor(indices, device="cpu")
    if chosen.numel() == 0:
        return torch.empty(0, dtype=torch.int64)
    if chosen.ndim != 1 or chosen.is_floating_point() or chosen.dtype == torch.bool:
        raise InvalidInput(
            "Indices should be a flat list of whole numbers. "
            f"(got {chosen.dtype} of shape {list(chosen.shape)})"
        )
    chosen = chosen.to(torch.int64)
    wrong = chosen[(chosen < 0) | (chosen >= length)]
    if len(wrong):
        raise InvalidInput(f"Indices should be in 0..{length - 1}. (got {int(wrong[0])})")
    return chosen
