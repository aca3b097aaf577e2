"""The batches of a Trainer, divided among its processes without loss or repetition."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch.utils.data import BatchSampler

from expunge.distributed import BatchDivision


class DividedBatches(BatchSampler):
    """This process's share of every batch that a single process would take.

    Accelerate gives whole batches to the processes in turn, and repeats examples until all have as
    many: the last steps of an epoch then depend on the number of processes. Here the shares of a
    batch differ in size by at most one, and a last batch with fewer examples than processes joins
    the one before it.

    ``set_epoch`` shuffles anew, in a run that resumes within an epoch, too.

    >>> [list(DividedBatches(range(7), 4, False, BatchDivision(rank, 2))) for rank in range(2)]
    [[[0, 1], [4, 5]], [[2, 3], [6]]]
    """

    def __init__(
        self, sampler: Any, batch_size: int, drop_last: bool, division: BatchDivision
    ) -> None:
        super().__init__(sampler, batch_size, drop_last)
        self.division = division

    def __len__(self) -> int:
        if self.drop_last:
            return super().__len__()
        return self.division.batch_count(len(self.sampler), self.batch_size)  # type: ignore[arg-type]

    def __iter__(self) -> Iterator[list[int]]:
        batches = [list(batch) for batch in super().__iter__()]
        if len(batches) > len(self):
            batches[-2:] = [batches[-2] + batches[-1]]
        for batch in batches:
            share = self.division.share(len(batch))
            yield batch[share.start : share.stop]

    def set_epoch(self, epoch: int) -> None:
        """Shuffle as in this epoch."""
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)
