"""Forget and retain sets that overlap are refused, as far as that can be told."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import ConcatDataset, DataLoader, Subset, TensorDataset

import expunge
from expunge import ImageSet, InvalidInput
from expunge.engine._overlap_check import check_disjoint
from tests import tiny
from tests.tiny import Counting, points

FORGET, RETAIN = points(6), points(8, seed=1)


def unlearn(model: nn.Module | None = None, **options: Any) -> expunge.Result:
    chosen: dict[str, Any] = {"forget": FORGET, "retain": RETAIN, "epochs": 1, "batch_size": 2}
    return tiny.unlearn(model or Counting(), **chosen | options)


def image_set(count: int, start: int = 0) -> ImageSet:
    """Images told apart by their first pixels."""
    pixels = torch.zeros(count, 1, 2, 2, dtype=torch.uint8)
    pixels[:, 0, 0, 0] = torch.arange(start, start + count).to(torch.uint8)
    labels = torch.arange(start, start + count) % 3
    return ImageSet(pixels, labels, ["a", "b", "c"])


def test_subsets_that_share_an_index_are_refused() -> None:
    data = points(10)
    with pytest.raises(InvalidInput, match=r"should not overlap.*\(2 shared ids, such as 3, 4\)"):
        unlearn(forget=Subset(data, [3, 1, 4]), retain=Subset(data, [4, 5, 3]))
    loaders = [DataLoader(Subset(data, ids), batch_size=2) for ids in ([0, 1], [1, 2])]
    with pytest.raises(InvalidInput, match=r"1 shared ids, such as 1"):
        unlearn(forget=loaders[0], retain=loaders[1])


def test_one_dataset_for_both_is_refused() -> None:
    data = points(10)
    with pytest.raises(InvalidInput, match="one dataset for both"):
        unlearn(forget=data, retain=data)


def test_samplers_may_divide_one_dataset() -> None:
    data = points(10)
    samplers = [torch.utils.data.SubsetRandomSampler(ids) for ids in ([0, 1], [2, 3, 4])]
    forget, retain = (DataLoader(data, batch_size=2, sampler=sampler) for sampler in samplers)
    unlearn(forget=forget, retain=retain)


@pytest.mark.parametrize(("shared", "refused"), [(4, False), (5, True), (10, True)])
def test_equal_images_are_refused_from_half_of_the_forget_set(shared: int, refused: bool) -> None:
    forget, retain = image_set(10), image_set(50, start=10 - shared)
    if not refused:
        check_disjoint(forget, retain)
        return
    with pytest.raises(InvalidInput, match=rf"\({shared} of 10 forget examples are in retain too"):
        check_disjoint(forget, retain)


def test_equal_pixels_under_another_label_are_no_overlap() -> None:
    forget = image_set(6)
    relabelled = ImageSet(forget.images, (forget.labels + 1) % 3, forget.classes)
    check_disjoint(forget, relabelled)


def test_overlap_is_seen_through_subsets_and_loaders_of_image_sets() -> None:
    with pytest.raises(InvalidInput, match="2 of 2 forget examples are in retain too"):
        check_disjoint(
            DataLoader(Subset(image_set(10), [3, 4])), DataLoader(image_set(10), shuffle=True)
        )


def test_an_example_is_followed_to_the_dataset_it_comes_from() -> None:
    data = points(10)
    forget = Subset(Subset(data, [5, 6, 7]), [2, 0])
    for retain in (data, ConcatDataset([points(3, seed=1), Subset(data, [7, 5])])):
        with pytest.raises(InvalidInput, match=r"\(2 shared ids, such as 5, 7\)"):
            check_disjoint(forget, retain)
    check_disjoint(forget, ConcatDataset([Subset(data, [6, 8])]))


def test_copies_of_tensors_in_memory_are_found() -> None:
    data = points(20)
    copied = TensorDataset(*(tensor[:5].clone() for tensor in data.tensors))
    with pytest.raises(InvalidInput, match="5 of 5 forget examples are in retain too"):
        check_disjoint(copied, data)
    check_disjoint(copied, Subset(data, range(5, 20)))


def test_scores_of_data_that_are_forgotten_and_unseen_at_once_are_refused() -> None:
    data = points(20)
    forget, rest = Subset(data, range(5)), Subset(data, range(5, 20))
    for name in ("test", "val"):
        splits: dict[str, Any] = {"retain": RETAIN, "test": points(4, seed=2), name: data}
        with pytest.raises(InvalidInput, match=rf"Forget and {name} should not overlap"):
            expunge.evaluate(Counting(), forget=forget, **splits)
    expunge.evaluate(Counting(), forget=forget, retain=rest, test=points(4, seed=2))
