"""Annotations are promises: what a function or a part declares is what it takes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from expunge import InvalidInput
from expunge._kinds import (
    Count,
    Finite,
    Fraction,
    NotNegative,
    Positive,
    Range,
    check_arguments,
    check_fields,
    check_kind,
)

PAIRS = TensorDataset(torch.zeros(2, 1), torch.zeros(2))
Data = Dataset[Any] | DataLoader[Any]


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter(PAIRS)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 3),
        (int, np.int64(3)),
        (float, 3),
        (float, np.float32(0.5)),
        (bool, True),
        (str, "a"),
        (str | None, None),
        (str | Path, Path("a")),
        (Literal["a", "b"], "b"),
        (bool | Literal["auto"], "auto"),
        (Sequence[int], (1, 2)),
        (tuple[int, ...], [1, 2]),
        (tuple[int, str], (1, "a")),
        (Iterable[int], iter("ab")),  # nobody can look without taking
        (Mapping[str, int], {"a": 1}),
        (Callable[[int], int], abs),
        (nn.Module, nn.Linear(1, 1)),
        (Tensor | None, torch.zeros(1)),
        (Data, PAIRS),
        (Data, list(PAIRS)),
        (Data, DataLoader(PAIRS)),
        (Any, object()),
        ("a name that nobody knows", object()),
        (Annotated[int, "an age"], 5),
        (Fraction, 0.5),
        (NotNegative, 0),
        (Count, 1),
        (Annotated[float, Range(0, 1, "(]")], 1.0),
        (Finite | None, -3.0),
    ],
)
def test_what_is_declared_fits(kind: Any, value: Any) -> None:
    check_kind("value", kind, value)


@pytest.mark.parametrize(
    ("kind", "value", "complaint"),
    [
        (int, True, "`value` should be a whole number. (got True)"),
        (int, 1.0, "`value` should be a whole number. (got 1.0)"),
        (float, "1", "`value` should be a number. (got '1')"),
        (bool, 1, "`value` should be True or False. (got 1)"),
        (str, None, "`value` should be a string. (got None)"),
        (str | Path | None, 5, "`value` should be a path, or None. (got 5)"),
        (str | nn.Module, 5, "`value` should be a name or a torch.nn.Module. (got 5)"),
        (bool | Literal["auto"], "yes", "`value` should be True or False or \"auto\". (got 'yes')"),
        (Literal["a", "b"], ["a"], "`value` should be one of a, b. (got list)"),
        (Sequence[int], "12", "`value` should be a list. (got '12')"),
        (Sequence[int], [1, "2"], "Each of `value` should be a whole number. (got '2')"),
        (tuple[int, str], (1,), "`value` should be a list of 2. (got tuple)"),
        (Mapping[str, int], {"a": "b"}, "Each of `value` should be a whole number. (got 'b')"),
        (Callable[[int], int], 5, "`value` should be a function. (got 5)"),
        (
            nn.Module,
            nn.Linear,
            "`value` should be a torch.nn.Module. (got Linear) Call it: Linear().",
        ),
        (Tensor, [1], "`value` should be a tensor. (got list)"),
        (Data, Stream(), "`value` should be a map-style Dataset or a DataLoader. (got Stream)"),
        (Data, {"a": 1}, "`value` should be a map-style Dataset or a DataLoader. (got dict)"),
        (Data, "folder", "`value` should be a map-style Dataset or a DataLoader. (got 'folder')"),
        (Annotated[int, "an age"], "5", "`value` should be an age. (got '5')"),
        (Fraction, 1.0, "`value` should be in (0, 1). (got 1.0)"),
        (Fraction, "a", "`value` should be a number. (got 'a')"),
        (Positive, math.inf, "`value` should be positive and finite. (got inf)"),
        (NotNegative, math.nan, "`value` should be finite and not negative. (got nan)"),
        (Finite, -math.inf, "`value` should be finite. (got -inf)"),
        (Count | None, 0, "`value` should be a whole number, at least 1, or None. (got 0)"),
    ],
)
def test_what_is_not_declared_is_refused(kind: Any, value: Any, complaint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        check_kind("value", kind, value)
    assert str(caught.value) == complaint


def test_arguments_are_looked_at_by_name() -> None:
    def draw(count: Count, seed: int = 0, *, later: Unknown = None) -> None:  # type: ignore[name-defined]  # noqa: F821
        check_arguments(draw, locals())

    draw(3, later="whatever: nobody can tell at run time")
    with pytest.raises(InvalidInput, match="`count` should be a whole number, at least 1"):
        draw(0)
    with pytest.raises(InvalidInput, match=r"`seed` should be a whole number in 0\.\.2\*\*63-1"):
        draw(1, seed=-1)


def test_fields_are_those_of_the_whole_family() -> None:
    @dataclass
    class Part:
        size: Count = 1

        def __post_init__(self) -> None:
            check_fields(self)

    @dataclass
    class Larger(Part):
        name: str = ""

    Larger(2, "a")
    with pytest.raises(InvalidInput, match="`size` should be"):
        Larger(0)
    with pytest.raises(InvalidInput, match="`name` should be a string"):
        Larger(1, 5)  # type: ignore[arg-type]
