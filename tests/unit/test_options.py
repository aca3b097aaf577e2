"""Options declared once: their ranges, and the pydantic models that take them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pydantic
import pytest

from expunge._errors import InvalidInput
from expunge._kinds import Count, Positive
from expunge._options import Option, option, options_of, takes_options


@dataclass(frozen=True)
class Cooking:
    minutes: int = option(5, Count, "How long.")
    heat: Literal["low", "high"] = option("low", Literal["low", "high"], "How hot.", later=True)
    salt: float | None = option(None, Positive, "Grams.")
    note: str = ""


OPTIONS = {each.name: each for each in options_of(Cooking)}


def test_a_dataclass_declares_its_options_in_order() -> None:
    assert list(OPTIONS) == ["minutes", "heat", "salt"]
    assert OPTIONS["minutes"] == Option("minutes", Count, 5, "How long.")
    assert OPTIONS["heat"].choices == ("low", "high")


@pytest.mark.parametrize(
    ("name", "value", "complaint"),
    [
        ("minutes", 0, r"`minutes` should be a whole number, at least 1. \(got 0\)"),
        ("minutes", 1.5, "whole number"),
        ("heat", "warm", r"`heat` should be one of low, high. \(got 'warm'\)"),
        ("salt", 0.0, "`salt` should be positive"),
        ("salt", float("nan"), "`salt` should be positive"),
        ("salt", float("inf"), "`salt` should be positive and finite"),
    ],
)
def test_a_value_out_of_range_is_refused(name: str, value: Any, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        OPTIONS[name].check(value)


@pytest.mark.parametrize(("name", "value"), [("minutes", 1), ("heat", "high"), ("salt", None)])
def test_a_value_within_range_passes(name: str, value: Any) -> None:
    OPTIONS[name].check(value)


@takes_options(options_of(Cooking))
class Recipe(pydantic.BaseModel):
    """A dish."""

    model_config = pydantic.ConfigDict(extra="forbid")

    dish: str
    minutes: int = 30


def test_a_model_takes_the_options_beside_its_own_fields() -> None:
    assert Recipe(dish="soup").model_dump() == {
        "dish": "soup",
        "minutes": 30,
        "heat": "low",
        "salt": None,
    }
    assert Recipe.__name__ == "Recipe"
    assert Recipe.__doc__ == "A dish."


@pytest.mark.parametrize("wrong", [{"heat": "warm"}, {"salt": -1.0}, {"salt": "2"}, {"pepper": 1}])
def test_a_model_refuses_what_the_options_refuse(wrong: dict[str, Any]) -> None:
    with pytest.raises(pydantic.ValidationError):
        Recipe(dish="soup", **wrong)


def test_a_value_is_read_from_text() -> None:
    assert OPTIONS["minutes"].read("12") == 12
    assert OPTIONS["heat"].read("high") == "high"
    for text in ("0", "-3", "many", "1.5"):
        with pytest.raises(InvalidInput, match="`minutes` should be a whole number"):
            OPTIONS["minutes"].read(text)
