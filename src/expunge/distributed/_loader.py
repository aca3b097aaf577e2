"""Loaders of this process's share of every batch, and nothing else."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset
from torch.utils.data.distributed import DistributedSampler

from expunge._errors import InvalidInput
from expunge.distributed._batch_shares import BatchDivision, BatchShare


class DividedBatches(BatchSampler):
    """This process's share of each batch of ``batches``, in their order.

    Shares differ in size by at most one, and a last batch with fewer examples than processes joins
    the one before it. The order is drawn as a single process draws it, from random numbers that all
    processes share; with a ``seed``, each has its own after that, for what the data set draws.
    """

    def __init__(self, batches: Any, division: BatchDivision, seed: int | None = None) -> None:
        self.batches, self.division, self.seed = batches, division, seed
        # Where torch and Accelerate look for them.
        self.sampler: Any = getattr(batches, "sampler", None)
        self.batch_size: Any = getattr(batches, "batch_size", None)
        self.drop_last = getattr(batches, "drop_last", False)
        self._joins_last = type(batches) is BatchSampler and not batches.drop_last
        self._shares: deque[BatchShare] = deque()

    def __len__(self) -> int:
        if not self._joins_last:
            return len(self.batches)
        return self.division.batch_count(len(self.batches.sampler), self.batches.batch_size)

    def __iter__(self) -> Iterator[list[int]]:
        self._shares.clear()
        batches = [list(batch) for batch in self.batches]
        if self._joins_last and len(batches) > 1 and len(batches[-1]) < self.division.size:
            batches[-2:] = [batches[-2] + batches[-1]]
        if self.seed is not None and self.division.rank:
            torch.default_generator.manual_seed(self.seed)
            random.seed(self.seed)
            np.random.seed(self.seed % 2**32)  # noqa: NPY002
        for batch in batches:
            share = self.division.share(len(batch))
            self._shares.append(share)
            yield batch[share.start : share.stop]

    def shares(self) -> Iterator[BatchShare | None]:
        """The share of each batch, in order; a loader may be some batches ahead."""
        while True:
            yield self._shares.popleft()

    def set_epoch(self, epoch: int) -> None:
        """Shuffle as in this epoch, in a run that resumes within an epoch, too."""
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)


def has_distributed_sampler(loader: DataLoader[Any]) -> bool:
    """Whether the user's sampler gives this process its own examples."""
    return isinstance(sampler_of(loader), DistributedSampler)


def sampler_of(loader: DataLoader[Any]) -> Any:
    """What chooses the examples; a loader with a batch sampler never asks its own ``sampler``."""
    return getattr(loader.batch_sampler, "sampler", loader.sampler)


def batch_count(loader: DataLoader[Any], division: BatchDivision) -> int:
    """The number of batches, after a last one too small for all processes has joined another."""
    if not _is_divided(loader, division):
        return len(loader)
    return len(DividedBatches(loader.batch_sampler, division))


def divide_loader(
    loader: DataLoader[Any], division: BatchDivision, k: int, seed: int
) -> tuple[DataLoader[Any], Iterator[BatchShare | None]]:
    """A loader of this process's shares in pass ``k``, and each share; None for whole batches."""
    if division.size > 1 and has_distributed_sampler(loader):
        sampler_of(loader).set_epoch(k)
    if not _is_divided(loader, division):
        return loader, itertools.repeat(None)
    batches: Any = loader.batch_sampler
    if type(batches) is BatchSampler and batches.batch_size < division.size:
        raise InvalidInput(
            "The batch size should be at least the number of processes. "
            f"(got {batches.batch_size} for {division.size})"
        )
    sampler = DividedBatches(batches, division, seed)
    shared: DataLoader[Any]
    shared = DataLoader(loader.dataset, batch_sampler=sampler, **loader_options(loader))
    return shared, sampler.shares()


def loader_options(loader: DataLoader[Any]) -> dict[str, Any]:
    """How a loader works, whatever chooses its examples."""
    names = ("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn")
    others = ("multiprocessing_context", "generator", "prefetch_factor")
    return {name: getattr(loader, name) for name in (*names, *others)}


def _is_divided(loader: DataLoader[Any], division: BatchDivision) -> bool:
    """Whether batches are lists of indices, to be divided before they are loaded."""
    if division.size == 1 or has_distributed_sampler(loader) or loader.batch_sampler is None:
        return False
    return not isinstance(loader.dataset, IterableDataset)
