"""Batches of one split, pass after pass, from any dataset or loader, resumable at any point."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from expunge._errors import InvalidInput
from expunge._tensors import bytes_of
from expunge.data._augment import Augment
from expunge.data._batches import Batch, Data, Split, as_arrays, as_batch, check_sized, read_items
from expunge.data._preferred_answers import Numbered
from expunge.distributed import (
    UNDIVIDED,
    BatchDivision,
    BatchShare,
    batch_count,
    divide_loader,
    has_distributed_sampler,
)

_ENDED = object()
"""What a loader can never yield."""


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

    ``batch_size`` is that of all processes together; a loader keeps its own, and its augmentation.
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
    items = _Indexed(data)
    batches = _JoinedBatches(RandomSampler(items), batch_size, division)
    return LoaderSource(DataLoader(items, batch_sampler=batches), split, seed, device, division)


def _joined_count(examples: int, batch_size: int, division: BatchDivision) -> int:
    """Batches per pass, of which a last one with few examples joins the one before it.

    BatchNorm normalises a few examples by themselves, and the step counts like any other: at a high
    rate it throws a training back. A single example has no variance.
    """
    return division.batch_count(examples, batch_size, least=max(2, batch_size // 16))


class _JoinedBatches(BatchSampler):
    """Shuffled batches of a map-style dataset."""

    def __init__(self, order: RandomSampler, batch_size: int, division: BatchDivision) -> None:
        super().__init__(order, batch_size, drop_last=False)
        self.count = _joined_count(len(order), batch_size, division)

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[list[int]]:
        batches = list(super().__iter__())
        if len(batches) > self.count:
            batches[-2:] = [batches[-2] + batches[-1]]
        yield from batches


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
        return _joined_count(len(self.inputs), self.batch_size, self.division)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.batch_size}".encode())
        for tensor in (self.inputs, self.targets):
            digest.update(f"{tensor.dtype}:{tuple(tensor.shape)}".encode())
            digest.update(bytes_of(tensor))
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
        size = getattr(self.loader.batch_sampler, "batch_size", None)
        return f"{kind} in {len(self)} batches of {size}"

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
                yield self._batch(item, share)

    def _batch(self, item: Any, share: BatchShare | None) -> Batch:
        """A batch with its positions; without a ``share``, it came whole and is divided here."""
        indices = None
        if isinstance(self.loader.dataset, _Indexed):
            item, positions = item
            indices = positions.to(self.device, non_blocking=True)
        batch = as_batch(item, self.split, self.device)._replace(indices=indices, share=share)
        if share or self.division.size == 1 or has_distributed_sampler(self.loader):
            return batch
        return batch.take(self.division.share(len(batch.targets)))


class _Indexed(Numbered):
    """A user's map-style dataset: pairs of an item of any form and its position."""

    def __getitem__(self, index: int) -> Any:
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


Source = ArraySource | LoaderSource
"""A split that can be iterated over repeatedly; pass ``k`` is the same every time."""


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


@contextmanager
def _random_states(states: list[Any], seed: int) -> Iterator[None]:
    """Let a user's dataset draw from ``states`` of its own, which are seeded first if empty."""
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
