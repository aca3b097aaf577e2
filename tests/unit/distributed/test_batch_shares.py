"""Every example of a global batch goes to one process, and to one only."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, RandomSampler
from torch.utils.data.distributed import DistributedSampler

from expunge import Augment, InvalidInput
from expunge.data import Batch, Source, as_source
from expunge.distributed._batch_shares import BatchDivision, BatchShare, share_weight
from tests.tiny import images, points


class Asked(Dataset[Any]):
    """Points that remember who was asked for."""

    def __init__(self, count: int) -> None:
        self.x = torch.arange(float(count)).view(-1, 1)
        self.requested: list[int] = []

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.requested.append(index)
        return self.x[index], 0


def source(
    data: Any, division: BatchDivision, batch_size: int = 4, augment: Augment | None = None
) -> Source:
    return as_source(
        data,
        split="retain",
        batch_size=batch_size,
        seed=0,
        augment=augment,
        device=torch.device("cpu"),
        division=division,
    )


def joined(batches: tuple[Batch, ...]) -> Tensor:
    return torch.cat([batch.inputs for batch in batches])


def assert_pieces_of_the_whole(make: Any, processes: int, **options: Any) -> None:
    whole = list(source(make(), BatchDivision(), **options).walk(1, 0))
    cuts = [source(make(), BatchDivision(rank, processes), **options) for rank in range(processes)]
    pieces = list(zip(*(cut.walk(1, 0) for cut in cuts), strict=True))
    assert len(pieces) == len(cuts[0])
    assert torch.equal(torch.cat([joined(p) for p in pieces]), torch.cat([b.inputs for b in whole]))
    for batches in pieces:
        sizes = [len(batch.targets) for batch in batches]
        assert min(sizes) > 0
        assert max(sizes) - min(sizes) <= 1


@settings(deadline=None)
@given(total=st.integers(1, 400), processes=st.integers(1, 9), parts=st.integers(1, 6))
def test_shares_cover_a_batch_without_loss_or_repeat(
    total: int, processes: int, parts: int
) -> None:
    if total < processes:
        with pytest.raises(InvalidInput, match="one example for every process"):
            BatchDivision(0, processes, parts).share(total)
        return
    shares = [BatchDivision(rank, processes, parts).share(total) for rank in range(processes)]
    assert [n for s in shares for n in range(s.start, s.stop)] == list(range(total))
    assert all(s.start < s.stop for s in shares)
    assert sum(share_weight(s, processes) for s in shares) == pytest.approx(processes)
    if total >= processes * parts:
        pieces = [p for s in shares for p in s.parts(parts)]
        cut = torch.arange(total).tensor_split(processes * parts)
        assert [(p.start, p.stop) for p in pieces] == [(int(c[0]), int(c[-1]) + 1) for c in cut]
        assert [p.last for p in pieces] == [(k + 1) % parts == 0 for k in range(len(pieces))]


@settings(deadline=None, max_examples=50)
@given(
    examples=st.integers(5, 60),
    batch_size=st.integers(5, 20),
    processes=st.integers(1, 5),
    lazy=st.booleans(),
)
def test_sources_divide_a_pass_without_loss_or_repeat(
    examples: int, batch_size: int, processes: int, lazy: bool
) -> None:
    data = Asked(examples) if lazy else points(examples)
    cuts = [source(data, BatchDivision(rank, processes), batch_size) for rank in range(processes)]
    pieces = [[batch.inputs for batch in cut.walk(0, 0)] for cut in cuts]
    assert len({len(p) for p in pieces}) == 1, "processes would wait for each other"
    seen = torch.cat([x for p in pieces for x in p])[:, 0]
    expected = data.x[:, 0] if isinstance(data, Asked) else data.tensors[0][:, 0]
    assert torch.equal(seen.sort().values, expected.sort().values)


@pytest.mark.parametrize("batch_size", [4, 5, 8])
def test_two_processes_walk_over_the_batches_of_one(batch_size: int) -> None:
    assert_pieces_of_the_whole(lambda: points(21), 2, batch_size=batch_size)
    assert_pieces_of_the_whole(lambda: Asked(22), 2, batch_size=batch_size)


def test_augmentation_of_a_piece_is_that_of_the_whole() -> None:
    assert_pieces_of_the_whole(lambda: images(22), 3, batch_size=8, augment=Augment(padding=2))


def test_a_loader_is_cut_before_it_loads() -> None:
    data = [Asked(20), Asked(20)]
    for rank in range(2):
        list(
            source(DataLoader(data[rank], batch_size=6, shuffle=True), BatchDivision(rank, 2)).walk(
                0, 0
            )
        )
    assert sorted(data[0].requested + data[1].requested) == list(range(20))


class Counted(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([(torch.tensor([float(k)]), 0) for k in range(12)])

    def __len__(self) -> int:
        return 12


LOADERS: dict[str, Any] = {
    "shuffled": lambda: DataLoader(Asked(13), batch_size=6, shuffle=True),
    "in workers": lambda: DataLoader(Asked(12), batch_size=6, shuffle=True, num_workers=1),
    "with a generator": lambda: DataLoader(
        Asked(12), batch_size=6, shuffle=True, generator=torch.Generator()
    ),
    "batch sampler": lambda: DataLoader(
        Asked(12), batch_sampler=BatchSampler(RandomSampler(range(12)), 5, drop_last=True)
    ),
    "an endless kind": lambda: DataLoader(Counted(), batch_size=6),
}


@pytest.mark.parametrize("kind", LOADERS)
def test_a_users_loader_gives_global_batches(kind: str) -> None:
    whole = list(source(LOADERS[kind](), BatchDivision()).walk(0, 0))
    halves = [list(source(LOADERS[kind](), BatchDivision(rank, 2)).walk(0, 0)) for rank in range(2)]
    assert torch.equal(
        torch.cat([joined(p) for p in zip(*halves, strict=True)]), joined(tuple(whole))
    )
    assert [b.share for b in halves[1]] == [
        BatchDivision(1, 2).share(len(a.targets) + len(b.targets))
        for a, b in zip(*halves, strict=True)
    ]


def test_a_loader_divided_by_its_own_sampler_is_taken_as_it_is() -> None:
    data = Asked(12)
    sampler = DistributedSampler(data, num_replicas=2, rank=1, shuffle=False)
    batches = list(source(DataLoader(data, 3, sampler=sampler), BatchDivision(1, 2)).walk(0, 0))
    assert [b.inputs.flatten().tolist() for b in batches] == [[1, 3, 5], [7, 9, 11]]
    assert [b.share for b in batches] == [None, None]


def test_what_a_data_set_draws_differs_between_processes() -> None:
    class Noise(Asked):
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            return torch.rand(1), 0

    one, other = (
        next(source(Noise(8), BatchDivision(rank, 2)).walk(0, 0)).inputs for rank in range(2)
    )
    assert not torch.equal(one, other)


def test_too_few_examples_are_refused() -> None:
    with pytest.raises(InvalidInput, match=r"retain set should have .* \(got 2 for 3 processes\)"):
        source(points(2), BatchDivision(0, 3))
    with pytest.raises(InvalidInput, match=r"`batch_size` is that of all .* \(got 2 for 3"):
        source(points(9), BatchDivision(0, 3), batch_size=2)
    with pytest.raises(InvalidInput, match=r"batch size should be at least .* \(got 2 for 3"):
        next(source(DataLoader(Asked(9), batch_size=2), BatchDivision(0, 3)).walk(0, 0))


def test_micro_batches_keep_their_place() -> None:
    x = torch.arange(6.0).view(6, 1)
    batch = Batch(x[3:], torch.zeros(3), "forget", BatchShare(3, 6, 6))
    assert [b.share for b in batch.parts(2)] == [
        BatchShare(3, 5, 6, last=False),
        BatchShare(5, 6, 6),
    ]
