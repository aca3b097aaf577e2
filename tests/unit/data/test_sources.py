"""Batches from anything: every example once a pass, the same pass every time."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, RandomSampler, Subset, TensorDataset

from expunge._errors import InvalidInput
from expunge.data import Augment, Batch, ImageSet, Source, Stream, as_arrays, as_source
from expunge.data._sources import ArraySource
from tests.tiny import points

CPU = torch.device("cpu")


class Items(Dataset[Any]):
    """A data set of single items, shifted by three kinds of random numbers if asked."""

    def __init__(self, count: int, noisy: bool = False) -> None:
        self.count, self.noisy = count, noisy

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        x = torch.tensor([float(index)])
        if self.noisy:
            x = x + torch.rand(1) + random.random() + np.random.rand()  # noqa: NPY002
        return x, index % 3


def source(data: Any, batch_size: int = 4, seed: int = 0, split: Any = "retain") -> Source:
    return as_source(data, split=split, batch_size=batch_size, seed=seed, augment=None, device=CPU)


def numbers(batches: list[Batch]) -> list[float]:
    return torch.cat([batch.inputs for batch in batches])[:, 0].tolist()


KINDS: dict[str, Callable[[int], Any]] = {
    "arrays": lambda n: TensorDataset(torch.arange(n).float()[:, None], torch.arange(n) % 3),
    "items": lambda n: Items(n),
    "noisy items": lambda n: Items(n, noisy=True),
    "loader": lambda n: DataLoader(Items(n, noisy=True), batch_size=4, shuffle=True),
    "loader with its own generator": lambda n: DataLoader(
        Items(n), batch_size=4, shuffle=True, generator=torch.Generator()
    ),
    "loader with its own sampler": lambda n: DataLoader(
        Items(n), batch_size=4, sampler=RandomSampler(range(n), generator=torch.Generator())
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_pass_is_the_same_every_time_and_another_pass_is_another(kind: str) -> None:
    walk = source(KINDS[kind](22)).walk
    first, again, other = (numbers(list(walk(k, 0))) for k in (0, 0, 1))
    assert first == again
    assert first != other
    assert len(first) == 22


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("skip", [1, 3])
def test_a_pass_can_be_entered_anywhere(kind: str, skip: int) -> None:
    walk = source(KINDS[kind](22)).walk
    assert numbers(list(walk(2, 0))[skip:]) == numbers(list(walk(2, skip)))


@pytest.mark.parametrize("kind", ["arrays", "items", "loader with its own generator"])
def test_every_example_comes_once_a_pass(kind: str) -> None:
    for k in range(3):
        assert sorted(numbers(list(source(KINDS[kind](22)).walk(k, 0)))) == list(range(22))


@pytest.mark.parametrize("kind", KINDS)
def test_labels_stay_with_their_inputs(kind: str) -> None:
    for batch in source(KINDS[kind](22)).walk(0, 0):
        if "noisy" not in kind and kind != "loader":
            assert torch.equal(batch.inputs[:, 0].long() % 3, batch.targets)
        assert batch.targets.dtype == torch.int64
        assert batch.split == "retain"


def test_seed_and_split_decide_the_order() -> None:
    data = KINDS["arrays"](22)
    orders = [
        numbers(list(source(data, seed=seed, split=split).walk(0, 0)))
        for seed in (0, 1)
        for split in ("forget", "retain")
    ]
    assert len({tuple(order) for order in orders}) == 4


@pytest.mark.parametrize("kind", ["arrays", "items"])
@pytest.mark.parametrize(
    ("count", "sizes"),
    [(8, [4, 4]), (9, [4, 5]), (10, [4, 4, 2]), (1, [1]), (3, [3]), (5, [5])],
)
def test_a_single_example_left_over_joins_the_batch_before_it(
    kind: str, count: int, sizes: list[int]
) -> None:
    found = source(KINDS[kind](count))
    assert [len(batch.inputs) for batch in found.walk(0, 0)] == sizes
    assert len(found) == len(sizes)


@pytest.mark.parametrize("kind", ["arrays", "items"])
@pytest.mark.parametrize(
    ("count", "sizes"), [(128, [64, 64]), (131, [64, 67]), (132, [64, 64, 4]), (40, [40])]
)
def test_fewer_than_a_sixteenth_of_a_batch_join_the_one_before(
    kind: str, count: int, sizes: list[int]
) -> None:
    found = source(KINDS[kind](count), batch_size=64)
    assert [len(batch.inputs) for batch in found.walk(0, 0)] == sizes


def test_a_stream_goes_on_without_end_and_can_be_taken_up_anywhere() -> None:
    data = source(KINDS["arrays"](10))
    stream = Stream(data)
    trail = [(stream.position, numbers([next(stream)])) for _ in range(10)]
    for position, expected in trail:
        other = Stream(data)
        other.seek(position)
        assert numbers([next(other)]) == expected
    assert sorted(sum((values for _, values in trail[3:6]), [])) == list(range(10))  # noqa: RUF017


@pytest.mark.parametrize("kind", KINDS)
def test_no_global_random_state_moves(kind: str) -> None:
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1]  # noqa: NPY002
    list(source(KINDS[kind](9)).walk(0, 0))
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == before[2]).all()  # noqa: NPY002


@pytest.mark.parametrize("kind", ["torch", "random", "numpy"])
def test_every_batch_draws_new_random_numbers(kind: str) -> None:
    draws = {
        "torch": lambda: float(torch.rand(())),
        "random": random.random,
        "numpy": np.random.rand,
    }

    class Noise(Items):
        def __getitem__(self, index: int) -> tuple[Tensor, int]:
            return torch.tensor([draws[kind]()], dtype=torch.float64), 0

    assert len(set(numbers(list(source(Noise(12)).walk(0, 0))))) == 12


def test_random_draws_between_batches_do_not_reach_the_data() -> None:
    walk = source(Items(12, noisy=True)).walk
    disturbed = []
    for batch in walk(0, 0):
        disturbed.append(batch)
        torch.rand(3)
        random.random()
    assert numbers(disturbed) == numbers(list(walk(0, 0)))


@pytest.mark.parametrize("base", [Subset, TensorDataset, ImageSet])
def test_a_subclass_that_transforms_its_items_is_asked_item_by_item(base: type) -> None:
    class Doubled(base):  # type: ignore[misc,valid-type]
        def __getitem__(self, index: int) -> Any:
            x, y = super().__getitem__(index)
            return 2 * x, y

        def __getitems__(self, indices: list[int]) -> list[Any]:
            return [self[index] for index in indices]

    x, y = torch.ones(4, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0, 1])
    data = {
        Subset: lambda: Doubled(TensorDataset(x, y), [0, 1, 2, 3]),
        TensorDataset: lambda: Doubled(x, y),
        ImageSet: lambda: Doubled(x, y, ["a", "b"]),
    }[base]()
    assert as_arrays(data) is None
    (batch,) = source(data).walk(0, 0)
    assert (batch.inputs == 2).all()


def test_arrays_are_taken_whole_from_sets_and_subsets_of_them() -> None:
    data = points(6)
    images = ImageSet(torch.zeros(3, 1, 2, 2, dtype=torch.uint8), torch.tensor([0, 1, 0]), "ab")
    assert as_arrays(images)[1].tolist() == [0, 1, 0]
    assert as_arrays(data)[1].tolist() == [0, 1, 2, 0, 1, 2]
    assert as_arrays(Subset(Subset(data, [5, 4, 3]), [2, 0]))[1].tolist() == [0, 2]
    assert as_arrays(TensorDataset(*data.tensors, torch.zeros(6))) is None
    assert as_arrays(Items(3)) is None


def test_augmentation_is_seeded_by_pass_and_batch() -> None:
    x = torch.arange(8 * 64, dtype=torch.int64).remainder(251).to(torch.uint8).view(8, 1, 8, 8)
    data = ArraySource(x, torch.zeros(8, dtype=torch.int64), "retain", 4, 0, Augment(padding=2))
    first, again, other = (torch.cat([b.inputs for b in data.walk(k, 0)]) for k in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(first[4:], next(data.walk(0, 1)).inputs)


def test_micro_batches_keep_every_example_and_differ_by_one_at_most() -> None:
    batch = Batch(torch.arange(10).view(10, 1), torch.arange(10), "forget")
    parts = batch.parts(4)
    assert [len(part.inputs) for part in parts] == [3, 3, 2, 2]
    assert torch.cat([part.targets for part in parts]).tolist() == list(range(10))
    assert {part.split for part in parts} == {"forget"}
    assert len(batch.parts(99)) == 10


def test_fingerprints_tell_data_and_batch_sizes_apart() -> None:
    prints = [
        source(points(6)).fingerprint(),
        source(points(6, seed=1)).fingerprint(),
        source(points(6), batch_size=5).fingerprint(),
        source(Items(6)).fingerprint(),
        source(Items(60)).fingerprint(),
    ]
    assert len(set(prints)) == 5
    assert source(points(6)).fingerprint() == prints[0]


def test_augment_needs_images_in_memory() -> None:
    with pytest.raises(InvalidInput, match="augment inside your Dataset"):
        as_source(Items(3), split="forget", batch_size=2, seed=0, augment=Augment(), device=CPU)
