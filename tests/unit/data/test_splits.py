from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from expunge._errors import InvalidInput
from expunge.data import hold_out
from expunge.data._splits import split_stratified, thin_out


@pytest.mark.parametrize(("count", "fraction", "held"), [(50, 0.1, 5), (7, 0.25, 2), (9, 0, 0)])
def test_the_held_out_part_has_exactly_the_rounded_size(make, count, fraction, held):
    train, val = hold_out(make([0] * count), fraction, seed=3)
    assert (len(train), len(val)) == (count - held, held)


def test_the_two_parts_are_all_of_it_in_order(make):
    names = [f"{i:03d}" for i in range(40)]
    train, val = hold_out(make([0] * 40, names=names), 0.3, seed=1)
    assert sorted(train.names + val.names) == names
    assert list(train.names) == sorted(train.names)
    assert list(val.names) == sorted(val.names)


def test_the_seed_decides_what_is_held_out(make):
    full = make([0] * 40, names=[str(i) for i in range(40)])
    assert hold_out(full, 0.3, seed=1)[1].names == hold_out(full, 0.3, seed=1)[1].names
    assert hold_out(full, 0.3, seed=1)[1].names != hold_out(full, 0.3, seed=2)[1].names


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_a_fraction_out_of_range_is_refused(make, fraction):
    with pytest.raises(InvalidInput, match=r"\[0, 1\)"):
        hold_out(make([0, 1]), fraction, seed=0)


def test_holding_out_everything_is_refused(make):
    with pytest.raises(InvalidInput, match="leaves none"):
        hold_out(make([0, 1]), 0.9, seed=0)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=60), st.floats(0.05, 0.95))
def test_every_class_of_two_is_on_both_sides_of_a_stratified_split(labels, fraction):
    rest, held = split_stratified(torch.tensor(labels), fraction)
    assert sorted(rest + held) == list(range(len(labels)))
    for label in set(labels):
        size = labels.count(label)
        share = sum(labels[i] == label for i in held)
        assert share == (0 if size == 1 else min(max(round(fraction * size), 1), size - 1))


def test_thinning_takes_from_every_class_alike(make):
    labels = [0] * 50 + [1] * 20 + [2] * 2
    kept = thin_out(make(labels, classes=3), 12, seed=0)
    assert kept.labels.bincount().tolist() == [5, 5, 2]
    assert thin_out(make(labels, classes=3), 10, seed=0).labels.unique().tolist() == [0, 1, 2]


def test_thinning_to_more_than_there_is_keeps_all(make):
    assert len(thin_out(make([0, 1, 2]), 99)) == 3


def test_thinning_to_nothing_is_refused(make):
    with pytest.raises(InvalidInput, match="at least 1"):
        thin_out(make([0, 1]), 0)
