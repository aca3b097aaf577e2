"""Results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from expunge.cli._output import Output, to_json


def test_json_is_all_there_is_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    output.show("a table")
    output.message("a message")
    output.data({"ta": 1.5})
    said = capsys.readouterr()
    assert json.loads(said.out) == {"ta": 1.5}
    assert said.err == "a message\n"


def test_quiet_leaves_the_result(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(quiet=True)
    output.show("a table")
    output.message("a message")
    output.data({"ta": 1.5})
    assert capsys.readouterr() == ("a table\n", "")
    assert not output.progress


def test_json_has_no_numbers_that_are_none() -> None:
    values = {"a": float("nan"), "b": float("inf"), "c": [Path("x"), None, True, 2]}
    assert json.loads(to_json(values)) == {"a": None, "b": None, "c": ["x", None, True, 2]}
