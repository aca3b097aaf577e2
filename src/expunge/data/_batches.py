"""Batches of one split, pass after pass, from any dataset or loader, resumable at any point."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Iterator, Mapping, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from expunge._errors import ExpungeError, InvalidInput
from expunge.data._augment import Augment
from expunge.data._examples import Examples, as_index
from expunge.data._preferred_answers import split_preferred
from expunge.distributed import (
    UNDIVIDED,
    BatchDivision,
    BatchShare,
    batch_count,
    divide_loader,
    has_distributed_sampler,
)

Split = Literal["forget", "retain"]
Data = Dataset[Any] | DataLoader[Any]
CPU = torch.device("cpu")
_ENDED = object()
"""What a loader can never yield."""


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
    inputs = {name: part for name, part in own.items() if name != "labels"}
    answers = batch_of(preferred, split) if preferred else None
    return Batch(inputs, as_targets(own["labels"]), split, preferred=answers)


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


class Source(Protocol):
    """A split that can be iterated over repeatedly; pass ``k`` is the same every time."""

    def __len__(self) -> int:
        """Batches per pass."""

    def walk(self, k: int, skip: int) -> Iterator[Batch]:
        """The batches of pass ``k``, without the first ``skip``."""

    def fingerprint(self) -> str:
        """A string that differs between sources, as far as that shows without loading them."""


@dataclass
class ArraySource:
    """Tensors in memory: batches are gathered and augmented whole, on the device."""

    inputs: Tensor
    targets: Tensor
    split: Split
    batch_size: int
    seed: int
    augment: Augment | None
    division: BatchDivision = UNDIVIDED

    def __len__(self) -> int:
        # A single example left over joins the batch before it: alone it has no variance.
        return self.division.batch_count(len(self.inputs), self.batch_size, least=2)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.batch_size}".encode())
        for tensor in (self.inputs, self.targets):
            digest.update(f"{tensor.dtype}:{tuple(tensor.shape)}".encode())
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def walk(self, k: int, skip: int) -> Iterator[Batch]:
        order = torch.randperm(len(self.inputs), generator=_generator(self.seed, self.split, k))
        count = len(self)
        for j in range(skip, count):
            start = j * self.batch_size
            stop = len(order) if j + 1 == count else start + self.batch_size
            share = self.division.share(stop - start)
            chosen = order[start + share.start : start + share.stop]
            chosen = chosen.to(self.inputs.device, non_blocking=True)
            x = self.inputs.index_select(0, chosen)
            if self.augment is not None:
                x = self.augment(x, _generator(self.seed, self.split, k, j + 1), share)
            yield Batch(x, self.targets.index_select(0, chosen), self.split, share, chosen)


@dataclass
class LoaderSource:
    """A user's ``DataLoader``, seeded for each pass, with random states apart from the model's."""

    loader: DataLoader[Any]
    split: Split
    seed: int
    device: torch.device
    division: BatchDivision = UNDIVIDED

    def __len__(self) -> int:
        return batch_count(self.loader, self.division)

    def fingerprint(self) -> str:
        dataset = self.loader.dataset
        kind = type(dataset.dataset if isinstance(dataset, _Indexed) else dataset).__name__
        return f"{kind} in {len(self)} batches of {self.loader.batch_size}"

    def walk(self, k: int, skip: int) -> Iterator[Batch]:
        # Every pass is seeded, and draws from random states apart from the model's.
        seed = seed_of(self.seed, self.split, k)
        states: list[Any] = []
        for generator in _generators(self.loader):
            generator.manual_seed(seed)
        loader, shares = divide_loader(
            self.loader, self.division, k, seed_of(seed, self.division.rank)
        )
        batches = read_items(loader, self.split)
        for j in range(len(self)):
            with _random_states(states, seed):
                item = next(batches, _ENDED)
            if item is _ENDED:
                return
            share = next(shares)
            if j >= skip:
                batch = self._batch(item)
                yield batch._replace(share=share) if share else self._own_share(batch)

    def _own_share(self, batch: Batch) -> Batch:
        """Cut this process's share out of a batch that came whole."""
        if self.division.size == 1 or has_distributed_sampler(self.loader):
            return batch
        return batch.take(self.division.share(len(batch.targets)))

    def _batch(self, item: Any) -> Batch:
        if isinstance(self.loader.dataset, _Indexed):
            item, indices = item
            return as_batch(item, self.split, self.device)._replace(
                indices=indices.to(self.device, non_blocking=True)
            )
        return as_batch(item, self.split, self.device)


class _Indexed(Dataset[Any]):
    """A user's map-style dataset, each item with its position."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.dataset[index], index

    def __getitems__(self, indices: list[int]) -> list[tuple[Any, int]]:
        """Several items at once, where the dataset can."""
        fetch = getattr(self.dataset, "__getitems__", None)
        items = fetch(indices) if fetch else [self.dataset[index] for index in indices]
        return list(zip(items, indices, strict=True))


def _generators(loader: DataLoader[Any]) -> list[torch.Generator]:
    """The generators that a loader shuffles with, if it has any."""
    holders = [loader, loader.sampler, loader.batch_sampler]
    holders.append(getattr(loader.batch_sampler, "sampler", None))
    generators = [getattr(holder, "generator", None) for holder in holders]
    return [generator for generator in generators if isinstance(generator, torch.Generator)]


def stop_augmenting(*sources: Source | None) -> None:
    """From the next pass on, batches of sources that augment themselves are left as they are."""
    for source in sources:
        if isinstance(source, ArraySource):
            source.augment = None


class Stream:
    """An endless walk over a source; ``position`` is (pass, batch), from where it can resume."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.position = (0, 0)
        self._batches: Iterator[Batch] | None = None

    def __next__(self) -> Batch:
        k, j = self.position
        if self._batches is None:
            self._batches = self.source.walk(k, j)
        batch = next(self._batches, None)
        if batch is None:
            if j == 0:
                raise InvalidInput("A data loader should yield at least one batch per pass.")
            self.position, self._batches = (k + 1, 0), None
            return next(self)
        self.position = (k, j + 1)
        return batch

    def seek(self, position: tuple[int, int]) -> None:
        """Resume the walk at a ``position`` read earlier."""
        self.position, self._batches = (int(position[0]), int(position[1])), None


def as_source(
    data: Data,
    *,
    split: Split,
    batch_size: int,
    seed: int,
    augment: Augment | None,
    device: torch.device,
    division: BatchDivision = UNDIVIDED,
) -> Source:
    """Make a source from :class:`Examples`, tensors, a map-style dataset or a ``DataLoader``.

    A loader keeps its batch size and its augmentation. ``batch_size`` is that of all processes
    together; ``division`` says which part of each batch belongs to this process.
    """
    if isinstance(data, DataLoader):
        check_sized(data, split)
        return LoaderSource(data, split, seed, device, division)
    check_sized(data, split, least=division.size)
    if batch_size < division.size:
        raise InvalidInput(
            "`batch_size` is that of all processes together: at least one example each. "
            f"(got {batch_size} for {division.size} processes)"
        )
    arrays = as_arrays(data)
    if arrays is not None:
        x, y = (part.to(device) for part in arrays)
        return ArraySource(x, y, split, batch_size, seed, augment, division)
    if augment is not None:
        raise InvalidInput("`augment` works on images in memory; augment inside your Dataset.")
    loader = DataLoader(_Indexed(data), batch_size=batch_size, shuffle=True)
    return LoaderSource(loader, split, seed, device, division)


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


@contextmanager
def _random_states(states: list[Any], seed: int) -> Iterator[None]:
    """Let a user's dataset draw from ``states`` of its own, which are seeded first if empty.

    All others, such as the model's dropout, find their random states as they left them.
    """
    before = _read_states()
    if states:
        _write_states(states[0])
    else:
        # Not torch.manual_seed: it would also reset the accelerator that the model draws from.
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        yield
    finally:
        states[:] = [_read_states()]
        _write_states(before)


def _read_states() -> tuple[Any, Any, Any]:
    return torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002


def _write_states(states: tuple[Any, Any, Any]) -> None:
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    np.random.set_state(states[2])  # noqa: NPY002


def seed_of(*words: object) -> int:
    """Make one 63-bit seed out of several words: the same on every machine."""
    text = "/".join(str(word) for word in words).encode()
    high, low = np.random.SeedSequence(list(text)).generate_state(2)
    return (int(high) << 31) ^ int(low)


def _generator(*words: object) -> torch.Generator:
    return torch.Generator().manual_seed(seed_of(*words))
