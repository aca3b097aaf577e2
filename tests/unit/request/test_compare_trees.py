"""Two trees of plain values are the same, but for rounding, or it is said where they differ."""

from __future__ import annotations

from typing import Any

import pytest

from expunge.request._compare_trees import compare_trees


@pytest.mark.parametrize(
    ("stated", "found"),
    [
        (0.5, 0.50004),
        (97.31, 97.33),
        (0.0, 0.0001),
        (3, 3),
        (3, 3.0),
        (float("nan"), float("nan")),
        (None, None),
        ("UA is 41.3 %, TA 97 %.", "UA is 41.4 %, TA 98 %."),
        ("AUC 0.512 [0.490, 0.530]", "AUC 0.513 [0.490, 0.529]"),
        ("in 90% of pairs", "in 89% of pairs"),
        ("1,234 of 5,000", "1,234 of 5,000"),
        ({"a": [1, {"b": 2.0}]}, {"a": [1, {"b": 2.0001}]}),
    ],
)
def test_rounding_is_not_a_difference(stated: Any, found: Any) -> None:
    assert list(compare_trees({"x": stated}, {"x": found})) == []


@pytest.mark.parametrize(
    ("stated", "found", "path"),
    [
        (0.5, 0.502, "x"),
        (97.31, 97.5, "x"),
        (0.0, 0.001, "x"),
        (3, 4, "x"),
        (1, True, "x"),
        (0, False, "x"),
        (None, 0, "x"),
        (None, float("nan"), "x"),
        ("0.5", 0.5, "x"),
        ("achieved", "not achieved", "x"),
        ("3 of 6 attacks", "2 of 6 attacks", "x"),
        ("UA is 41.3 %", "UA is 41.5 %", "x"),
        ("UA is 41.3 %", "UA is 41.30 %", "x"),
        ("UA is 41.3", "UA is 41.3 %", "x"),
        ([1], [1, 2], "x.1"),
        ([1, 2], [1], "x.1"),
        ({"a": 1}, {}, "x.a"),
        ({}, {"a": None}, "x.a"),
        ({"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 2}]}}, "x.a.b.0.c"),
        ({"a": 1}, [1], "x"),
    ],
)
def test_everything_else_is_a_difference_and_its_place_is_named(
    stated: Any, found: Any, path: str
) -> None:
    (difference,) = compare_trees({"x": stated}, {"x": found})
    assert difference.path == path
    assert str(difference).startswith(f"{path} is ")


def test_only_what_is_named_is_left_out() -> None:
    stated = {"a": {"b": 1, "c": 2}, "rows": [{"t": 1, "n": 1}, {"t": 2, "n": 2}]}
    found = {"a": {"b": 9, "c": 9}, "rows": [{"t": 9, "n": 9}, {"t": 9, "n": 9}]}
    assert list(compare_trees(stated, found, ["a", "rows"])) == []
    paths = [each.path for each in compare_trees(stated, found, ["a.b", "rows.0", "b"])]
    assert paths == ["a.c", "rows.1.t", "rows.1.n"]
