"""Results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.table import Table

from expunge.cli._output import Output, to_json

UNPRINTABLE = "".join(map(chr, [*range(9), *range(11, 32), *range(127, 160), 0x202E, 0x2066]))


def test_json_is_all_there_is_on_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(as_json=True)
    output.show("a table")
    output.message("a message")
    output.data({"ta": 1.5})
    said = capsys.readouterr()
    assert json.loads(said.out) == {"ta": 1.5}
    assert said.err == "a message\n"


def test_quiet_leaves_the_result_and_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    output = Output(quiet=True)
    output.show("a table")
    output.message("a message")
    output.wrote("a file.")
    output.data({"ta": 1.5})
    assert capsys.readouterr() == ("a table\n", "Wrote a file.\n")
    assert not output.progress


def test_json_has_no_numbers_that_are_none() -> None:
    values = {"a": float("nan"), "b": float("inf"), "c": [Path("x"), None, True, 2]}
    assert json.loads(to_json(values)) == {"a": None, "b": None, "c": ["x", None, True, 2]}


def test_names_from_data_are_printed_without_control_characters(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"c{UNPRINTABLE}at\udcff"
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table("cat\x07", title="cat\x1b[2J")
    table.add_row("cat\x9b31m")
    output = Output(width=80)
    output.show(name, table, style="red")
    output.message(name)
    output.text(name)
    said = capsys.readouterr()
    assert said.out.count("cat") == 5
    assert said.err == "cat\n"
    assert set(UNPRINTABLE) & set(said.out) <= {"\x1b"}, "colours are the console's own"


def test_json_has_control_characters_as_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).data({"name": UNPRINTABLE})
    said = capsys.readouterr().out
    assert not set(UNPRINTABLE) & set(said)
    assert json.loads(said) == {"name": UNPRINTABLE}
