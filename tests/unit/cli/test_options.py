"""What a shell offers for values; every option that a procedure declares is offered."""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable
from typing import get_args, get_type_hints

import pytest

from expunge.bench._protocol import Unlearning
from expunge.cli._forget import forget_command
from expunge.cli._options import (
    complete_data,
    complete_model,
    complete_names,
    complete_scenario,
)
from expunge.cli._unlearn import unlearn_command
from expunge.engine._procedure import PLAIN_OPTIONS
from expunge.methods import METHODS
from expunge.request._job import Job
from expunge.request._job_file import SECTIONS
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
    assert words(complete_scenario("")) == ["random", "class", "people", "ids"]
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


NAMES = {each.name for each in PLAIN_OPTIONS}


@pytest.mark.parametrize(
    ("command", "without"),
    [(unlearn_command, set()), (forget_command, {"epochs", "aggregate", "beta"})],
)
def test_a_command_offers_every_option(command: Callable[..., None], without: set[str]) -> None:
    assert NAMES - set(inspect.signature(command).parameters) == without


def test_a_job_and_a_protocol_take_every_option() -> None:
    assert NAMES - set(Job.model_fields) == {"epochs", "aggregate", "beta"}
    assert NAMES - set(Unlearning.model_fields) == {"method", "addon", "moments"}


@pytest.mark.parametrize("command", [unlearn_command, forget_command])
def test_what_is_not_given_is_left_to_the_method_or_a_file(command: Callable[..., None]) -> None:
    asked = inspect.signature(command).parameters
    assert all(asked[name].default is None for name in NAMES & set(asked))


@pytest.mark.parametrize("command", [forget_command, unlearn_command])
def test_no_panel_of_the_help_is_longer_than_a_screen(command: Callable[..., None]) -> None:
    """Options are listed under the sections of their declarations, each once."""
    hints = get_type_hints(command, include_extras=True)
    panels = Counter(
        get_args(hint)[1].rich_help_panel for name, hint in hints.items() if name != "return"
    )
    assert len(panels) > 3
    assert max(panels.values()) <= 16
    if command is forget_command:
        assert {name for name in panels if isinstance(name, str)} == {*SECTIONS.values(), "Output"}
