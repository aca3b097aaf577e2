"""A key changes with what matters, and with nothing else."""

from __future__ import annotations

import enum
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from expunge._errors import InvalidInput
from expunge.store import Stage, canonical

numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | st.text(max_size=5)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
configs = st.dictionaries(st.text(max_size=4), trees, max_size=4)


def make(config: dict[str, Any], *parents: Stage, **others: Any) -> Stage:
    return Stage("train", config, parents, **{"run": "a.b:c", **others})


def reorder(tree: Any) -> Any:
    """The same configuration, written differently."""
    if isinstance(tree, dict):
        return {key: reorder(tree[key]) for key in reversed(tree)}
    if isinstance(tree, list):
        return tuple(reorder(item) for item in tree)
    if isinstance(tree, int) and not isinstance(tree, bool) and abs(tree) < 2**53:
        return float(tree)
    return tree


def strict(tree: Any) -> Any:
    """Equality that tells True from 1, as Python's own does not."""
    if isinstance(tree, dict):
        return {key: strict(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [strict(value) for value in tree]
    return (isinstance(tree, bool), tree)


@settings(max_examples=60, deadline=None)
@given(configs)
def test_order_tuples_and_whole_floats_do_not_change_the_key(config: dict[str, Any]) -> None:
    assert make(config).key == make(reorder(config)).key


@settings(max_examples=60, deadline=None)
@given(configs, configs)
def test_keys_are_equal_exactly_when_configurations_are(
    a: dict[str, Any], b: dict[str, Any]
) -> None:
    assert (make(a).key == make(b).key) == (strict(a) == strict(b))


@settings(max_examples=60, deadline=None)
@given(configs, trees)
def test_another_setting_changes_the_key(config: dict[str, Any], value: Any) -> None:
    assert make(config).key != make({**config, "a new setting": value}).key


def test_kind_version_and_parents_change_the_key() -> None:
    base = make({"a": 1})
    keys = [
        base.key,
        Stage("other", {"a": 1}, run="a.b:c").key,
        make({"a": 1}, version=2).key,
        make({"a": 1}, base).key,
        make({"a": 1}, base, base).key,
        make({"a": 1}, make({"a": 2}), base).key,
        make({"a": 1}, base, make({"a": 2})).key,
        make({"a": 1}, make({"a": 1}, version=2)).key,
    ]
    assert len(set(keys)) == len(keys)


def test_title_options_cost_and_function_do_not_change_the_key() -> None:
    base = make({"a": 1})
    same = replace(base, title="t", options={"device": "cpu"}, cost=7.0, run="d:e")
    assert same == base
    assert hash(same) == hash(base)
    assert len({same, base}) == 1


def test_the_key_is_the_same_on_every_machine_and_every_day() -> None:
    stage = make({"lr": 0.1, "name": "é", "sizes": (1, 2.0)}, make({}))
    assert stage.key == "bb264a27101b454124fe247e58d6e9c6ac2548a148e68266153841f0934f9f4b"


def test_true_is_not_one() -> None:
    assert make({"a": True}).key != make({"a": 1}).key


def test_subclasses_of_plain_values_are_plain_values() -> None:
    class Colour(enum.StrEnum):
        RED = "red"

    assert make({"a": Colour.RED, "b": np.float64(0.5)}).key == make({"a": "red", "b": 0.5}).key


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (math.nan, "config.a"),
        (math.inf, "finite"),
        (Path("x"), "Path"),
        (b"x", "bytes"),
        ({1: 2}, "keys"),
        ({1, 2}, "set"),
        ([0, {"b": object()}], r"config\.a\[1\]\.b"),
        (torch.zeros(1), "Tensor"),
        (np.int64(1), "int64"),
        ("\ud800", "Unicode"),
        pytest.param(10**5000, "JSON", id="a huge integer"),
    ],
)
def test_a_configuration_json_does_not_know_is_refused(value: Any, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        make({"a": value})


def test_a_configuration_that_contains_itself_is_refused() -> None:
    loop: dict[str, Any] = {}
    loop["a"] = loop
    with pytest.raises(InvalidInput, match="contains itself"):
        make(loop)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "../up"},
        {"kind": "Upper"},
        {"kind": ""},
        {"run": "module"},
        {"run": "a:b:c"},
        {"version": 1.5},
        {"version": True},
        {"cost": -1.0},
        {"cost": math.nan},
        {"config": [1]},
        {"options": 3},
        {"parents": ("x",)},
    ],
)
def test_an_impossible_stage_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="should be"):
        Stage(**{"kind": "train", "config": {}, "run": "a:b", **wrong})


def test_a_stage_cannot_be_changed_behind_its_key() -> None:
    config = {"a": [1, {"b": 2}]}
    stage = make(config)
    config["a"].append(3)
    for each in (stage, pickle.loads(pickle.dumps(stage))):
        assert canonical(each.config) == {"a": [1, {"b": 2}]}
        with pytest.raises(TypeError):
            each.config["a"] = 2


def test_a_chain_of_thousands_can_be_built_and_sent() -> None:
    stage = make({"n": 0})
    for n in range(1, 3000):
        stage = make({"n": n}, stage)
    sent = pickle.loads(pickle.dumps(stage))
    assert (sent, sent.parents) == (stage, stage.parents)
