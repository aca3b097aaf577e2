"""Batches of one split, and whole datasets as tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from expunge._errors import ExpungeError, InvalidInput
from expunge.data._examples import Examples, as_index
from expunge.data._preferred_answers import POSITION, split_preferred
from expunge.distributed import BatchShare

Split = Literal["forget", "retain"]
Data = Dataset[Any] | DataLoader[Any]
CPU = torch.device("cpu")


class Batch(NamedTuple):
    """Examples of one split, on the device."""

    inputs: Any
    """A tensor, or a dict of tensors that the model takes by name; the first axis is examples."""
    targets: Tensor
    split: Split
    share: BatchShare | None = None
    """Which examples of the batch of all processes these are; None if unknown."""
    indices: Tensor | None = None
    """Positions of the examples in their dataset [N]; None where a loader does not tell."""
    preferred: Batch | None = None
    """The answers to give instead, example by example, where the data have them."""

    @property
    def positions(self) -> Tensor:
        """``indices``, for methods that have a target for every example."""
        if self.indices is None:
            raise InvalidInput(
                "This method has a target for every example, so it needs to know which ones a "
                f"batch holds: give `{self.split}` as a Dataset, not as a DataLoader."
            )
        return self.indices

    def parts(self, count: int) -> list[Batch]:
        """Split into at most ``count`` micro-batches, whose sizes differ by at most one."""
        count = min(count, len(self.targets))
        shares = [None] * count if self.share is None else self.share.parts(count)
        pieces = torch.arange(len(self.targets)).tensor_split(count)
        rows = [slice(int(piece[0]), int(piece[-1]) + 1) for piece in pieces]
        return [self.rows(chosen, share) for chosen, share in zip(rows, shares, strict=True)]

    def take(self, share: BatchShare) -> Batch:
        """Cut out this process's share; the batch should be that of all processes."""
        return self.rows(slice(share.start, share.stop), share)

    def rows(self, chosen: slice, share: BatchShare | None) -> Batch:
        """Some examples of the batch, which are ``share`` of that of all processes."""
        inputs = rows_of(self.inputs, chosen)
        indices = None if self.indices is None else self.indices[chosen]
        preferred = None if self.preferred is None else self.preferred.rows(chosen, share)
        return Batch(inputs, self.targets[chosen], self.split, share, indices, preferred)


def rows_of(inputs: Any, chosen: slice) -> Any:
    """Some examples of the inputs of a batch."""
    if isinstance(inputs, Mapping):
        return {name: tensor[chosen] for name, tensor in inputs.items()}
    return inputs[chosen]


def batch_of(fields: Mapping[str, Tensor], split: Split) -> Batch:
    """A batch from named tensors: ``labels``, and ``preferred_…`` for the answers to prefer."""
    own, preferred = split_preferred(fields)
    inputs = {name: part for name, part in own.items() if name not in ("labels", POSITION)}
    answers = batch_of(preferred, split) if preferred else None
    targets = as_targets(own["labels"])
    return Batch(inputs, targets, split, indices=own.get(POSITION), preferred=answers)


def as_batch(item: Any, split: Split, device: torch.device, name: str = "") -> Batch:
    """What a loader yields, as a batch on ``device``; ``name`` is what messages call the data."""

    def place(part: Any) -> Tensor:
        try:
            return torch.as_tensor(part).to(device, non_blocking=True)
        except (TypeError, ValueError, RuntimeError) as error:
            raise _wrong_items(name or split, part, error) from error

    def place_all(parts: Mapping[str, Any]) -> dict[str, Tensor]:
        return {key: place(part) for key, part in parts.items()}

    if isinstance(item, Mapping) and "labels" in item and len(item) > 1:
        batch = batch_of(place_all(item), split)
    elif isinstance(item, tuple | list) and len(item) >= 2:
        x, y = item[:2]
        inputs = place_all(x) if isinstance(x, Mapping) else place(x)
        batch = Batch(inputs, as_targets(place(y)), split)
    else:
        raise _wrong_items(name or split, item)
    if batch.targets.ndim == 0:
        raise InvalidInput(
            f"`{name or split}` should yield batches, with an axis of examples. (got a single "
            "example) Give its DataLoader a `batch_size`."
        )
    return batch


def as_targets(targets: Tensor) -> Tensor:
    """Whole numbers of any type as int64, which losses take; floats as they are."""
    if targets.is_complex():
        raise InvalidInput(f"Targets should be real numbers. (got {targets.dtype})")
    return targets if targets.is_floating_point() else targets.long()


def _wrong_items(name: str, got: Any, why: Exception | None = None) -> InvalidInput:
    said = f": {type(why).__name__}: {why}" if why else ""
    return InvalidInput(
        f"`{name}` should yield dicts with `labels`, or yield pairs (inputs, targets). (got "
        f"{type(got).__name__}{said}) All parts should be tensors, arrays or numbers of one shape; "
        "images need a transform that makes tensors, such as torchvision's ToTensor."
    )


def read_items(loader: Iterable[Any], name: str) -> Iterator[Any]:
    """What a loader yields; an error of its dataset, or of putting a batch together, is named."""
    try:
        yield from loader
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError) as error:
        if isinstance(error, ExpungeError):
            raise
        raise _wrong_items(name, loader, error) from error


def check_sized(data: Data, split: str, least: int = 1) -> None:
    """Raise unless ``data`` have a length, and ``least`` examples or batches."""
    try:
        size = len(cast(Sized, data))
    except TypeError as error:
        raise InvalidInput(f"`{split}` should have a length.") from error
    if size == 0:
        raise InvalidInput(f"The {split} set should not be empty.")
    if size < least:
        raise InvalidInput(
            f"The {split} set should have an example for every process. "
            f"(got {size} for {least} processes)"
        )


def as_arrays(data: Dataset[Any]) -> tuple[Tensor, Tensor] | None:
    """The whole set as two tensors, if it is held that way, else None.

    A subclass that overrides ``__getitem__``, to apply a transform for example, is not: its items
    are fetched one by one.
    """
    getitem = type(data).__getitem__
    if isinstance(data, Examples) and getitem is Examples.__getitem__:
        arrays = data.inputs, data.targets
    elif isinstance(data, TensorDataset) and getitem is TensorDataset.__getitem__:
        if len(data.tensors) != 2:
            return None
        arrays = data.tensors[0], data.tensors[1]
    elif isinstance(data, Subset) and getitem is Subset.__getitem__:
        whole = as_arrays(data.dataset)
        if whole is None:
            return None
        size = len(whole[0])
        chosen = torch.as_tensor(data.indices)
        chosen = as_index(torch.where(chosen < 0, chosen + size, chosen), size)
        arrays = whole[0][chosen], whole[1][chosen]
    else:
        return None
    for part in arrays:
        if part.layout is not torch.strided or part.is_meta:
            raise InvalidInput(
                "Data in memory should be dense tensors with values. "
                f"(got {part.layout} on {part.device})"
            )
    return arrays[0], as_targets(arrays[1])


def labels_of(data: Data) -> Tensor:
    """The label of every example [N], on the CPU, read without loading inputs where possible."""
    if isinstance(data, Examples):
        return data.labels.cpu()
    arrays = None if isinstance(data, DataLoader) else as_arrays(data)
    if arrays is not None:
        return arrays[1].cpu()
    labels = getattr(data, "labels", None)
    if isinstance(labels, Tensor):
        return labels.cpu()
    if isinstance(data, DataLoader):
        batches = [as_batch(item, "retain", CPU, "data") for item in read_items(data, "data")]
        return torch.cat([batch.targets.reshape(-1) for batch in batches])
    examples: Any = data

    def read() -> Iterator[Tensor]:
        items = (examples[k] for k in range(len(examples)))
        found = (item["labels"] if isinstance(item, Mapping) else item[1] for item in items)
        yield torch.stack([torch.as_tensor(label) for label in found])

    return as_targets(next(read_items(read(), "data")))


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
    content = f"{row.dtype}{row.shape}".encode() + row.tobytes() + suffix
    return hashlib.sha256(content).digest()
