"""Examples of any shape in memory, beside :class:`~expunge.ImageSet` for uint8 images."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from expunge.data import ImageSet
from expunge.data._images import Indices, as_index, check_labels


class Examples(TensorDataset):
    """Inputs and labels of one split, with the interface of an :class:`~expunge.ImageSet`.

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
        """How many classes there are, whether or not each has an example."""
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


InMemory = ImageSet | Examples


def inputs_of(data: InMemory) -> Tensor:
    """All inputs, [N, ...]."""
    return data.images if isinstance(data, ImageSet) else data.inputs


def as_fractions(data: InMemory) -> Examples:
    """The same examples as floats x / 255."""
    return Examples(inputs_of(data).float() / 255, data.labels, data.classes, data.names)
