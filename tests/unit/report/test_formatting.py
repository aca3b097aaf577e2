from __future__ import annotations

from expunge.report._formatting import facts, number


def test_facts_of_any_shape_are_laid_out() -> None:
    found = {
        "a": {"value": 90.0, "low": 80.0, "high": 95.0},
        "many": [{"x": 1, "y": None}] * 25,
        "none": [],
        "step_seconds": 0.0113,
        "list": ["one"],
        "by": {"cat": 3},
        "deep": {"b": {"c": "d"}},
    }
    shapes = {item["label"]: item for item in facts(found)}
    assert shapes["A"]["text"] == "90.0 (80.0 to 95.0)"
    assert len(shapes["Many"]["table"]["rows"]) == 20
    assert shapes["Many"]["rest"] == 5
    assert shapes["None"]["text"] == "none"
    assert shapes["Step seconds"]["text"] == "11.3 ms"
    assert shapes["List"]["list"] == ["one"]
    assert shapes["By"]["pairs"] == [("cat", "3")]
    assert shapes["Deep"]["facts"][0]["facts"][0]["text"] == "d"


def test_an_undefined_number_is_a_dash() -> None:
    assert number(float("nan"), "%") == "–"
