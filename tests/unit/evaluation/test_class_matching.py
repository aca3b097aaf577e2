"""Samples with the class mix of another set."""

from __future__ import annotations

import torch

from expunge.evaluation._class_matching import match_class_mix

POOL = torch.tensor([0] * 12 + [1] * 6 + [2] * 5)


def counts(like: list[int], *, largest: bool = False) -> list[int]:
    chosen = match_class_mix(POOL, torch.tensor(like), seed=1, largest=largest)
    assert chosen == sorted(set(chosen))
    return torch.bincount(POOL[chosen], minlength=4).tolist()


def test_as_many_of_each_class_or_all_there_are() -> None:
    assert counts([0, 0, 1]) == [2, 1, 0, 0]
    assert counts([1] * 9 + [2]) == [0, 6, 1, 0]


def test_the_largest_sample_keeps_the_mix() -> None:
    assert counts([0, 0, 1], largest=True) == [12, 6, 0, 0]
    assert counts([0, 1], largest=True) == [6, 6, 0, 0]


def test_a_class_that_is_not_there_does_not_limit_the_others() -> None:
    assert counts([0, 3], largest=True) == [12, 0, 0, 0]
    assert counts([3], largest=True) == [0, 0, 0, 0]
