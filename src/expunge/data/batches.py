"""Batches of one split, pass after pass, from any dataset or loader, resumable anywhere."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol, cast

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from expunge.data.augment import Augment
from expunge.data.images import ImageSet
from expunge.errors import InvalidInput

Split = Literal["forget", "retain"]
Data = Dataset[Any] | DataLoader[Any]


class Batch(NamedTuple):
    """Examples of one split, on the device."""

    inputs: Tensor
    targets: Tensor
    split: Split

    def parts(self, count: int) -> list[Batch]:
        """At most ``count`` micro-batches of sizes that differ by one at most."""
        count = min(count, len(self.inputs))
        pieces = zip(self.inputs.tensor_split(count), self.targets.tensor_split(count), strict=True)
        return [Batch(x, y, self.split) for x, y in pieces]


class Source(Protocol):
    """A split that can be gone through again and again; pass ``k`` is the same every time."""

    def __len__(self) -> int:
        """Batches a pass."""

    def walk(self, k: int, skip: int) -> Iterator[Batch]:
        """The batches of pass ``k``, without the first ``skip``."""

    def fingerprint(self) -> str:
        """Different for different batches, as far as can be told without going through them."""


@dataclass
class ArraySource:
    """Tensors in memory: batches are gathered and augmented whole, on the device."""

    inputs: Tensor
    targets: Tensor
    split: Split
    batch_size: int
    seed: int
    augment: Augment | None

    def __len__(self) -> int:
        whole, rest = divmod(len(self.inputs), self.batch_size)
        # A single example left over joins the batch before it: alone it has no variance.
        return max(whole + (rest > 1), 1)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.batch_size}".encode())
        for tensor in (self.inputs, self.targets):
            digest.update(f"{tensor.dtype}:{tuple(tensor.shape)}".encode())
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def walk(self, k: int, skip: int) -> Iterator[Batch]:
        order = torch.randperm(len(self.inputs), generator=_generator(self.seed, self.split, k))
        for j in range(skip, len(self)):
            stop = len(order) if j + 1 == len(self) else (j + 1) * self.batch_size
            chosen = order[j * self.batch_size : stop]
            chosen = chosen.to(self.inputs.device, non_blocking=True)
            x = self.inputs.index_select(0, chosen)
            if self.augment is not None:
                x = self.augment(x, _generator(self.seed, self.split, k, j + 1))
            yield Batch(x, self.targets.index_select(0, chosen), self.split)


@dataclass
class LoaderSource:
    """A user's ``DataLoader``, its randomness seeded pass by pass, apart from the model's."""

    loader: DataLoader[Any]
    split: Split
    seed: int
    device: torch.device

    def __len__(self) -> int:
        return len(self.loader)

    def fingerprint(self) -> str:
        kind = type(self.loader.dataset).__name__
        return f"{kind} in {len(self)} batches of {self.loader.batch_size}"

    def walk(self, k: int, skip: int) -> Iterator[Batch]:
        seed = seed_of(self.seed, self.split, k)
        own = _RandomState(seed)
        for generator in _generators(self.loader):
            generator.manual_seed(seed)
        with own.active():
            batches = iter(self.loader)
        for j in range(len(self)):
            with own.active():
                try:
                    item = next(batches)
                except StopIteration:
                    return
            if j >= skip:
                yield self._batch(item)

    def _batch(self, item: Any) -> Batch:
        if not (isinstance(item, (tuple, list)) and len(item) >= 2):
            raise InvalidInput(
                f"The {self.split} set should yield pairs (inputs, targets). "
                f"(got {type(item).__name__})"
            )
        x, y = (torch.as_tensor(part).to(self.device, non_blocking=True) for part in item[:2])
        return Batch(x, y, self.split)


def _generators(loader: DataLoader[Any]) -> list[torch.Generator]:
    """The generators of its own that a loader shuffles with."""
    parts = [loader, loader.sampler, loader.batch_sampler]
    parts.append(getattr(loader.batch_sampler, "sampler", None))
    found = [getattr(part, "generator", None) for part in parts]
    return [generator for generator in found if isinstance(generator, torch.Generator)]


class Stream:
    """An endless walk over a source; ``position`` says where it is and where to take it up."""

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
                raise InvalidInput("A data loader should yield at least one batch a pass.")
            self.position, self._batches = (k + 1, 0), None
            return next(self)
        self.position = (k, j + 1)
        return batch

    def seek(self, position: tuple[int, int]) -> None:
        """Take up the walk at a ``position`` read earlier."""
        self.position, self._batches = (int(position[0]), int(position[1])), None


def as_source(
    data: Data,
    *,
    split: Split,
    batch_size: int,
    seed: int,
    augment: Augment | None,
    device: torch.device,
) -> Source:
    """A source from an :class:`ImageSet`, tensors, any map-style dataset, or a ``DataLoader``.

    A loader keeps its own batch size and its own augmentation.
    """
    if isinstance(data, DataLoader):
        _check_sized(data, split)
        return LoaderSource(data, split, seed, device)
    if isinstance(data, IterableDataset) or not hasattr(data, "__getitem__"):
        raise InvalidInput(
            f"`{split}` should be a map-style Dataset or a DataLoader. (got {type(data).__name__})"
        )
    _check_sized(data, split)
    arrays = as_arrays(data)
    if arrays is not None:
        x, y = (part.to(device) for part in arrays)
        return ArraySource(x, y, split, batch_size, seed, augment)
    if augment is not None:
        raise InvalidInput("`augment` works on images in memory; augment inside your Dataset.")
    loader = DataLoader(data, batch_size=batch_size, shuffle=True)
    return LoaderSource(loader, split, seed, device)


def _check_sized(data: Data, split: Split) -> None:
    try:
        size = len(cast(Sized, data))
    except TypeError as error:
        raise InvalidInput(f"`{split}` should have a length.") from error
    if size == 0:
        raise InvalidInput(f"The {split} set should not be empty.")


def as_arrays(data: Dataset[Any]) -> tuple[Tensor, Tensor] | None:
    """The whole set as two tensors, where it is held that way.

    A subclass with a ``__getitem__`` of its own, a transform say, is not: it is asked item by item.
    """
    own = type(data).__getitem__
    if isinstance(data, ImageSet) and own is ImageSet.__getitem__:
        return data.images, data.labels
    if isinstance(data, TensorDataset) and own is TensorDataset.__getitem__:
        return (data.tensors[0], data.tensors[1]) if len(data.tensors) == 2 else None
    if isinstance(data, Subset) and own is Subset.__getitem__:
        whole = as_arrays(data.dataset)
        if whole is not None:
            chosen = torch.as_tensor(data.indices, dtype=torch.int64)
            return whole[0][chosen], whole[1][chosen]
    return None


class _RandomState:
    """The random states that a user's dataset may draw from, swapped in while it works."""

    def __init__(self, seed: int) -> None:
        with self._borrowed():
            # Not torch.manual_seed: it would also reset the accelerator that the model draws from.
            torch.default_generator.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002
            self.state = self._read()

    @contextmanager
    def active(self) -> Iterator[None]:
        with self._borrowed():
            self._write(self.state)
            try:
                yield
            finally:
                self.state = self._read()

    @contextmanager
    def _borrowed(self) -> Iterator[None]:
        before = self._read()
        try:
            yield
        finally:
            self._write(before)

    @staticmethod
    def _read() -> tuple[Any, Any, Any]:
        return torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002

    @staticmethod
    def _write(state: tuple[Any, Any, Any]) -> None:
        torch.set_rng_state(state[0])
        random.setstate(state[1])
        np.random.set_state(state[2])  # noqa: NPY002


def seed_of(*words: object) -> int:
    """One 63-bit seed out of several words; equal words, equal seeds, on every machine."""
    text = "/".join(str(word) for word in words).encode()
    high, low = np.random.SeedSequence(list(text)).generate_state(2)
    return (int(high) << 31) ^ int(low)


def _generator(*words: object) -> torch.Generator:
    return torch.Generator().manual_seed(seed_of(*words))
