"""The batches of a Trainer, divided among processes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import BatchSampler, SequentialSampler

from expunge.distributed import BatchDivision, DividedBatches


@given(st.integers(1, 40), st.integers(1, 6), st.integers(1, 4), st.booleans(), st.integers(0, 3))
def test_the_shares_of_a_batch_are_that_batch(
    examples: int, each: int, processes: int, drop_last: bool, epoch: int
) -> None:
    """No example is lost or repeated, and every process takes as many steps."""
    examples = max(examples, processes)
    sampler, size = SequentialSampler(range(examples)), each * processes
    divided = [
        DividedBatches(BatchSampler(sampler, size, drop_last), BatchDivision(rank, processes))
        for rank in range(processes)
    ]
    shares = [list(batches) for batches in divided]
    whole = [list(batch) for batch in BatchSampler(sampler, size, drop_last)]
    assert all(len(own) == len(batches) for own, batches in zip(shares, divided, strict=True))
    joined = [[k for share in step for k in share] for step in zip(*shares, strict=True)]
    assert [k for step in joined for k in step] == [k for batch in whole for k in batch]
    assert joined[:-1] == whole[: len(joined) - 1]
    assert all(share for own in shares for share in own)
    for batches in divided:
        batches.set_epoch(epoch)  # a sampler without epochs does not mind
