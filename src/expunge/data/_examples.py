"""Labelled examples of one split, held in memory as tensors: images, vectors or token ids."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from expunge._errors import InvalidInput
from expunge._kinds import check_arguments

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
        count = len(inputs) if inputs.ndim else 0
        check_labels(labels, self.classes, self.names, count, self.noun)

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

    def subset(self, indices: Indices) -> Self:
        """The examples at ``indices``, in that order, with their names and all classes."""
        chosen = as_index(indices, len(self))
        names = None if self.names is None else [self.names[i] for i in chosen.tolist()]
        chosen = chosen.to(self.inputs.device)
        return type(self)(self.inputs[chosen], self.labels[chosen], self.classes, names)

    def to(self, device: torch.device | str) -> Self:
        """The same examples with their tensors on ``device``."""
        moved = self.inputs.to(device), self.labels.to(device)
        return type(self)(*moved, self.classes, self.names)

    def fingerprint(self) -> str:
        """SHA-256 over type, shape, inputs and labels: equal data, equal fingerprint."""
        digest = hashlib.sha256(self._description().encode())
        for tensor in (self.inputs, self.labels):
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def _description(self) -> str:
        return f"{self.inputs.dtype}{tuple(self.inputs.shape)}"


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


def check_labels(
    labels: Tensor, classes: Sequence[str], names: Sequence[str] | None, count: int, noun: str
) -> None:
    """Raise unless there is a valid label, and a name if any, for each of ``count`` examples."""
    if names is not None and len(names) != count:
        raise InvalidInput(
            f"`names` should hold one name for each of {count} {noun}s. (got {len(names)})"
        )
    if not classes and labels.is_floating_point():
        _check_numbers(labels, count, noun)
        return
    if labels.dtype != torch.int64 or labels.shape != (count,):
        raise InvalidInput(
            f"`labels` should be int64 of shape [{count}], one for every {noun}. "
            f"(got {labels.dtype} of shape {list(labels.shape)})"
        )
    wrong = ((labels < 0) | (labels >= len(classes))).nonzero()
    if len(wrong):
        index = int(wrong[0])
        raise InvalidInput(
            f"labels should be in 0..{len(classes) - 1}. "
            f"(got {int(labels[index])} at index {index})"
        )


def _check_numbers(labels: Tensor, count: int, noun: str) -> None:
    """Raise unless ``labels`` are the numbers of a regression."""
    if labels.shape != (count,):
        raise InvalidInput(
            f"`labels` should be floats of shape [{count}], one for every {noun}. "
            f"(got shape {list(labels.shape)})"
        )
    wrong = (~torch.isfinite(labels)).nonzero()
    if len(wrong):
        raise InvalidInput(
            f"labels should be finite. (got {float(labels[int(wrong[0])])} at index "
            f"{int(wrong[0])})"
        )
