from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from expunge.data import Examples
from expunge.request.loading._load import ModelAndData
from expunge.request.preflight._duplicates import Duplicate, find_duplicates
from tests.unit.request.worlds import loaded_world


@pytest.fixture
def world(tmp_path) -> ModelAndData:
    """Record 0 has copies at 240 (another label), val 5 and test 7; that of 1 is not exact."""
    loaded = loaded_world(tmp_path)
    train, val, test = loaded.train, loaded.val, loaded.test
    inputs = torch.cat((train.inputs, train.inputs[:1], train.inputs[1:2] + 0.002))
    labels = torch.cat((train.labels, torch.tensor([3, 1])))
    val.inputs[5], test.inputs[7] = train.inputs[0], train.inputs[0]
    return replace(loaded, train=Examples(inputs, labels, train.classes))


def test_duplicates_are_those_of_the_literal_double_loop(world):
    forgotten = [0, 1, 3, 9]
    wanted = []
    for split, data in (("retain", world.train), ("val", world.val), ("test", world.test)):
        for index in range(len(data)):
            if split == "retain" and index in forgotten:
                continue
            for f in forgotten:
                if torch.equal(data.inputs[index], world.train.inputs[f]):
                    wanted.append(Duplicate(f, split, index))
                    break
    found = find_duplicates(world, forgotten)
    assert list(found) == wanted
    assert [(each.split, each.index) for each in found] == [
        ("retain", 240),
        ("val", 5),
        ("test", 7),
    ]


def test_what_was_forgotten_earlier_does_not_remain(world):
    assert [each.split for each in find_duplicates(world, [0], earlier={240})] == ["val", "test"]
    assert find_duplicates(world, [0, 240])[0].split == "val"


def test_of_equal_records_the_first_is_named(world):
    assert {each.forgotten for each in find_duplicates(world, [240, 0])} == {240}
