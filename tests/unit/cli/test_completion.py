"""What a shell offers for values."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from expunge.bench.protocols import PROTOCOLS
from expunge.cli._completion import (
    complete_data,
    complete_model,
    complete_names,
    complete_protocol,
    complete_scenario,
    complete_words,
)
from expunge.methods import METHODS
from tests.unit.cli.conftest import Expunge


def words(offered: list[tuple[str, str]]) -> list[str]:
    return [word for word, _ in offered]


def test_names_and_short_names_are_offered_with_a_line_about_them() -> None:
    offered = complete_names(METHODS)("s")
    known = [*METHODS, *(METHODS.label(name) for name in METHODS)]
    expected = {word for word in known if word.lower().startswith("s")}
    assert {"SRL", "scrub", "SCRUB"} <= expected == set(words(offered))
    assert dict(offered)["SRL"] == METHODS.summary("random-label")


def test_data_are_formats_and_then_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "people.csv").touch()
    (tmp_path / "photos").mkdir()
    (tmp_path / ".hidden").touch()
    monkeypatch.chdir(tmp_path)
    assert words(complete_data("c")) == ["cifar10", "cifar100", "csv:"]
    assert words(complete_data("csv:p")) == ["csv:people.csv", "csv:photos/"]
    assert words(complete_data("peo")) == ["people.csv"]
    assert words(complete_data(f"{tmp_path}/pe")) == [f"{tmp_path}/people.csv"]
    assert words(complete_data("/nowhere/at/all")) == []


def test_other_values_are_offered_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").touch()
    assert words(complete_scenario("")) == ["random:", "class:", "hardest:", "people:", "ids:"]
    assert words(complete_scenario("ids:mi")) == ["ids:mine.toml"]
    assert words(complete_model("t")) == ["text-bag"]
    assert words(complete_model("h")) == ["hf:"]
    assert words(complete_protocol("")) == [*PROTOCOLS, "mine.toml"]
    assert words(complete_words(("auto", "cpu"))("c")) == ["cpu"]


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("expunge unl", ["unlearn"]),
        ("expunge train --ep", ["--epochs"]),
        ("expunge unlearn m.st --method ran", ["random-label"]),
        ("expunge unlearn m.st --addon pro", ["prob"]),
        ("expunge list met", ["methods", "metrics"]),
        ("expunge bench run paper-", ["paper-mini", "paper-eighth", "paper-quarter"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(
    line: str, offered: list[str], expunge: Expunge, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The name of the program, which is that of the variable, is no module's: as for a script.
    monkeypatch.setattr(sys.modules["__main__"], "__package__", None, raising=False)
    monkeypatch.setenv("_EXPUNGE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(line.split()) - 1))
    assert expunge().out.split() == offered
