"""What a shell offers for values."""

from __future__ import annotations

import sys

import pytest

from expunge.cli._options import (
    complete_data,
    complete_model,
    complete_names,
    complete_scenario,
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


def test_data_models_scenarios_and_protocols_are_offered_by_name() -> None:
    assert words(complete_data("c")) == ["cifar10", "cifar100", "csv"]
    assert words(complete_scenario("")) == ["random", "class", "hardest", "people", "ids"]
    assert words(complete_model("t")) == ["text-bag"]


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
