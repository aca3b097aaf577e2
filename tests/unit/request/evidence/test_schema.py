"""The evidence as a typed model: what it reads, what it writes, and its JSON Schema."""

from __future__ import annotations

import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from expunge._errors import DataError
from expunge.request.evidence import Evidence, Interval, read_evidence
from expunge.request.evidence._schema import json_schema
from expunge.request.evidence._sections import EpochRow
from tests.unit.report import fake

SCHEMA = files("expunge.request.evidence") / "evidence.schema.json"


def written() -> dict[str, Any]:
    values: dict[str, Any] = json.loads(json.dumps(fake.evidence().as_json()))
    return values


def test_what_is_written_is_read_and_nothing_is_lost() -> None:
    evidence = Evidence.model_validate(written())
    assert evidence == fake.evidence()
    assert json.dumps(evidence.as_json()) == json.dumps(written()), "in the same order"


def test_unknown_keys_are_kept() -> None:
    values = written() | {"later": {"a": [1]}}
    values["epochs"][0]["later"] = 2.5
    assert Evidence.model_validate(values).as_json() == values


@pytest.mark.parametrize("undefined", [math.nan, math.inf, None])
def test_an_undefined_number_is_nan_here_and_null_in_json(undefined: Any) -> None:
    interval = Interval(value=0.5, low=undefined, high=1.0)
    assert math.isnan(interval.low)
    assert interval.model_dump(mode="json") == {"value": 0.5, "low": None, "high": 1.0}
    assert Interval.model_validate_json(interval.model_dump_json()) == interval


def test_an_epoch_without_finite_outputs_has_no_comparison() -> None:
    row = EpochRow.model_validate({"epoch": 1, "action": "rolled back"})
    assert math.isnan(row.ua)
    assert row.model_dump(mode="json", exclude_unset=True) == {"epoch": 1, "action": "rolled back"}


def test_an_interval_contains_its_bounds() -> None:
    interval = Interval(value=0.5, low=0.25, high=1.0)
    assert 0.25 in interval
    assert 1.0 in interval
    assert 0.2 not in interval


@pytest.mark.parametrize(
    ("value", "place"),
    [(20.0, "below"), (25.0, "on the edge of"), (30.0, "inside"), (100.0, "inside")],
)
def test_an_interval_says_where_a_percentage_lies(value: float, place: str) -> None:
    assert Interval(value=50.0, low=25.0, high=100.0).locate(value) == place
    assert Interval(value=25.0, low=25.0, high=25.0).locate(25.0) == "inside"


def test_evidence_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(json.dumps(written() | {"schema_version": 4}))
    with pytest.raises(DataError, match=r"newer version of expunge.*got `schema_version` 4"):
        read_evidence(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not the evidence of a request: the file: Invalid JSON"),
        ("{}", "is not the evidence of a request: verdict: Field required"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_what_is_no_evidence_is_refused(tmp_path: Path, text: str | None, complaint: str) -> None:
    path = tmp_path / "evidence.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataError, match=complaint):
        read_evidence(path)


def test_a_metric_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match="has no metric 'fid'"):
        fake.evidence().metric("fid")


def test_the_shipped_schema_is_up_to_date() -> None:
    assert SCHEMA.read_text(encoding="utf-8") == json_schema(), (
        "write it again: python -m expunge.request.evidence._schema"
    )


def test_the_schema_describes_every_section() -> None:
    schema = json.loads(json_schema())
    assert set(written()) | {"schema_version"} <= set(schema["properties"])
    assert set(schema["required"]) == {"verdict", "request", "hashes", "config", "stopped"}
    assert schema["$defs"]["Interval"]["properties"]["low"] == {"type": ["number", "null"]}
