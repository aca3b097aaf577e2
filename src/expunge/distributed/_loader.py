"""A ``DataLoader`` that loads this process's share of every batch, and nothing else."""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, Sampler
from torch.utils.data.distributed import DistributedSampler

from expunge._errors import InvalidInput
from expunge.distributed._batch_shares import Cut, Share


class ShareSampler(Sampler[list[int]]):
    """This process's share of each batch of ``batches``, in their order.

    The order is drawn as a single process draws it, from random numbers that all processes have
    alike; after that, each has its own (``seed``), for what the data set draws.
    """

    def __init__(self, batches: Any, cut: Cut, seed: int) -> None:
        self.batches, self.cut, self.seed = batches, cut, seed
        self._shares: deque[Share] = deque()

    def handed_out(self) -> Iterator[Share | None]:
        """The shares in the order of the batches; a loader may be some batches ahead."""
        while True:
            yield self._shares.popleft()

    def __iter__(self) -> Iterator[list[int]]:
        batches = [list(batch) for batch in self.batches]
        if joins(self.batches) and len(batches) > 1 and len(batches[-1]) < self.cut.size:
            batches[-2:] = [batches[-2] + batches[-1]]
        if self.cut.rank:
            torch.default_generator.manual_seed(self.seed)
            random.seed(self.seed)
            np.random.seed(self.seed % 2**32)  # noqa: NPY002
        for batch in batches:
            share = self.cut.share(len(batch))
            self._shares.append(share)
            yield batch[share.start : share.stop]


def joins(batches: Any) -> bool:
    """Whether only the last batch can be short, so that it may join the one before."""
    return type(batches) is BatchSampler


def is_shared_already(loader: DataLoader[Any]) -> bool:
    """Whether the user's sampler gives this process its own examples."""
    return isinstance(_sampler(loader), DistributedSampler)


def _sampler(loader: DataLoader[Any]) -> Any:
    """What chooses the examples; a loader given whole batches has a sampler that it never asks."""
    return getattr(loader.batch_sampler, "sampler", loader.sampler)


def batches_of(loader: DataLoader[Any], cut: Cut) -> int:
    """How many batches there are once a last one, too small for all processes, has joined."""
    batches: Any = loader.batch_sampler
    if not _is_cut(loader, cut) or not joins(batches) or batches.drop_last:
        return len(loader)
    return cut.batches(len(batches.sampler), batches.batch_size)


def cut_loader(
    loader: DataLoader[Any], cut: Cut, k: int, seed: int
) -> tuple[DataLoader[Any], Iterator[Share | None]]:
    """A loader of this process's shares in pass ``k``, and the share that each batch is.

    None stands for batches that come whole, or as the user's own sampler divides them.
    """
    if cut.size > 1 and is_shared_already(loader):
        _sampler(loader).set_epoch(k)
    if not _is_cut(loader, cut):
        return loader, itertools.repeat(None)
    batches: Any = loader.batch_sampler
    if joins(batches) and batches.batch_size < cut.size:
        raise InvalidInput(
            "The batch size should be at least the number of processes. "
            f"(got {batches.batch_size} for {cut.size})"
        )
    sampler = ShareSampler(batches, cut, seed)
    own: DataLoader[Any] = DataLoader(
        loader.dataset,
        batch_sampler=sampler,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
    )
    return own, sampler.handed_out()


def _is_cut(loader: DataLoader[Any], cut: Cut) -> bool:
    """Whether batches are lists of indices, to be cut before they are loaded."""
    if cut.size == 1 or is_shared_already(loader) or loader.batch_sampler is None:
        return False
    return not isinstance(loader.dataset, IterableDataset)
