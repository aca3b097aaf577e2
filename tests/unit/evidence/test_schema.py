"""The evidence as a typed model: what it reads, what it writes, and its JSON Schema."""

from __future__ import annotations

import json
import math
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from pydantic.json_schema import GenerateJsonSchema

from expunge._errors import DataError
from expunge.evidence import Evidence, Interval, read_evidence
from expunge.evidence._sections import EpochRow
from tests.unit.report import fake

SCHEMA = files("expunge.evidence") / "evidence.schema.json"


class SchemaGenerator(GenerateJsonSchema):
    """Null for undefined defaults, and no titles that only repeat the name of a field."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def encode_default(self, dft: Any) -> Any:
        return super().encode_default(None if dft is math.nan else dft)


def json_schema() -> str:
    """The JSON Schema of ``evidence.json``, the content of ``evidence.schema.json``."""
    schema = Evidence.model_json_schema(schema_generator=SchemaGenerator)
    schema = {"$schema": GenerateJsonSchema.schema_dialect} | schema
    return json.dumps(schema, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def values() -> dict[str, Any]:
    return fake.evidence().as_json()


def test_evidence_is_read_as_it_was_written_and_keys_keep_their_order(tmp_path: Path) -> None:
    path = tmp_path / "evidence.json"
    path.write_text(json.dumps(values()))
    assert read_evidence(path) == fake.evidence()
    assert json.dumps(read_evidence(path).as_json()) == path.read_text()


@pytest.mark.parametrize("undefined", [math.nan, math.inf, None])
def test_an_undefined_number_is_nan_here_and_null_in_json(undefined: Any) -> None:
    interval = Interval(value=0.5, low=undefined, high=1.0)
    assert math.isnan(interval.low)
    assert interval.model_dump(mode="json") == {"value": 0.5, "low": None, "high": 1.0}
    assert Interval.model_validate_json(interval.model_dump_json()) == interval


def test_an_epoch_that_nobody_watched_has_no_accuracies() -> None:
    row = EpochRow.model_validate({"epoch": 1, "objective": 0.5})
    assert math.isnan(row.ua)
    assert row.model_dump(mode="json", exclude_unset=True) == {"epoch": 1, "objective": 0.5}


def test_unknown_keys_are_refused_wherever_they_stand(tmp_path: Path) -> None:
    inside = values()
    inside["metrics"][0]["after"]["later"] = 2.5
    for content, where in ((values() | {"later": 1}, "later"), (inside, "metrics.0.after.later")):
        path = tmp_path / "evidence.json"
        path.write_text(json.dumps(content))
        with pytest.raises(DataError, match=f"{where}: Extra inputs are not permitted"):
            read_evidence(path)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "is not valid JSON: Expecting property name"),
        ('{"verdict": 1, "verdict": 2}', "is not valid JSON: the key 'verdict' is there twice"),
        ('{"a": {"b": 1, "b": 2}}', "the key 'b' is there twice"),
        ('{"a": NaN}', "NaN is not a number"),
        ('{"a": 1e400}', "1e400 is too large"),
        ("[" * 100_000, "nested too deeply"),
        ('{"schema_version": 4}', "cannot be read: schema_version: Input should be 5"),
        ('{"schema_version": 5}', "cannot be read: kind: Field required"),
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
    """``EXPUNGE_WRITE_DOCS=1`` writes it again."""
    if "EXPUNGE_WRITE_DOCS" in os.environ:
        Path(str(SCHEMA)).write_text(json_schema(), encoding="utf-8")
    assert SCHEMA.read_text(encoding="utf-8") == json_schema()


def test_the_schema_describes_every_section() -> None:
    schema = json.loads(json_schema())
    assert set(values()) <= set(schema["properties"])
    required = {"schema_version", "kind", "verdict", "request", "hashes", "config", "stopped"}
    assert set(schema["required"]) == required | {"preflight"}
    assert schema["$defs"]["Interval"]["properties"]["low"] == {"type": ["number", "null"]}
