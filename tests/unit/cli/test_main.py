"""Help, versions and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import expunge as package
from expunge._errors import DataError, Diverged, InvalidInput, PluginWarning, StorageError
from expunge.bench.protocols import BUILT_IN
from expunge.cli import _main
from expunge.cli._main import BENCH_COMMANDS, COMMANDS, build_app
from expunge.cli._output import ExitCode
from tests.unit.cli.conftest import Expunge


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command: str, expunge: Expunge) -> None:
    ending = expunge(command, "--help")
    assert ending.code == 0
    assert f"Example:  expunge {command}" in " ".join(ending.out.split("\n"))


@pytest.mark.parametrize("command", [*COMMANDS, *(f"bench {name}" for name in BENCH_COMMANDS)])
def test_what_prints_json_can_be_quiet(command: str) -> None:
    run = get_command(build_app(None))
    for word in command.split():
        run = run.commands[word]
    options = {option for each in run.params for option in each.opts}
    assert "--quiet" in options or "--json" not in options


def test_help_lists_the_commands(expunge: Expunge) -> None:
    ending = expunge("--help")
    assert ending.code == 0
    assert {"demo", "train", "retrain", "unlearn", "list"} <= set(COMMANDS)
    assert all(command in ending.out for command in COMMANDS)
    assert expunge("-h").out == ending.out


def test_help_of_the_benchmark_names_every_protocol_of_the_package(expunge: Expunge) -> None:
    text = expunge("bench", "--help").out
    assert all(name in text for name in BUILT_IN)


def test_what_is_built_for_some_words_answers_them_as_the_whole_does() -> None:
    whole, run = build_app(), CliRunner()
    for words in (
        *([name, "--help"] for name in COMMANDS),
        *(["bench", name, "--help"] for name in BENCH_COMMANDS),
        *([], ["--help"], ["bench"], ["bench", "-h"], ["--version"]),
        *(["unlern"], ["bench", "rum"], ["--nonsense"], ["train", "--epocs", "3"]),
    ):
        built, expected = run.invoke(build_app(words), words), run.invoke(whole, words)
        assert (built.output, built.exit_code) == (expected.output, expected.exit_code)


def test_version(expunge: Expunge) -> None:
    assert expunge("--version") == (0, f"expunge {package.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("unlern",), ("unlearn",), ("train",), ("--nonsense",)])
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], expunge: Expunge) -> None:
    ending = expunge(*arguments)
    assert ending.code == 2
    assert "Traceback" not in ending.err


def test_the_module_runs_as_a_program_and_help_loads_little() -> None:
    code = (
        "import atexit, runpy, sys; heavy = {'torch', 'sklearn', 'matplotlib', 'torchjd'}; "
        "atexit.register(lambda: print(sorted(heavy & {*sys.modules}))); "
        "sys.argv[1:] = ['--help']; runpy.run_module('expunge', alter_sys=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Start with:" in done.stdout
    assert done.stdout.endswith("[]\n")


class Stop(BaseException):
    """What some code raises to get past ``except Exception``."""


def _raising(error: BaseException) -> Callable[[], None]:
    def command() -> None:
        raise error

    return command


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("a"), 2),
        (DataError("a"), 2),
        (StorageError("a"), 2),
        (Diverged("a"), 2),
        (KeyError("a"), 2),
        (OSError(5, "a"), 2),
        (MemoryError("a"), 2),
        (RecursionError("a"), 2),
        (BrokenPipeError(32, ""), 2),
        (EOFError(), 2),
        (Stop("a"), 2),
        (GeneratorExit("a"), 2),
        (SystemExit(0), 2),
        (SystemExit(1), 2),
        (SystemExit("a"), 2),
        (typer.Abort(), 2),
        (KeyboardInterrupt(), 130),
        (typer.Exit(0), 0),
        (typer.Exit(1), 1),
        (typer.Exit(3), 3),
        (typer.Exit(4), 4),
    ],
    ids=repr,
)
def test_whatever_ends_a_command_has_its_exit_code(
    error: BaseException, code: int, expunge: Expunge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_main, "resolve_name", lambda _: _raising(error))
    ending = expunge("list")
    assert ending.code == code
    assert code in set(ExitCode)
    if "a" in error.args:
        assert "a" in ending.err


def test_a_fault_is_shown_with_its_traceback_and_a_mistake_without(
    expunge: Expunge, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, shown in ((KeyError("name"), True), (DataError("name"), False)):
        monkeypatch.setattr(_main, "resolve_name", lambda _, error=error: _raising(error))
        ending = expunge("list")
        assert ("Traceback" in ending.err) is shown
        assert "name" in ending.err.splitlines()[-2 if shown else -1]


HOSTILE = "cat\x1b]0;title\x07\x1b[2J\x9b31m\u202e"


@pytest.mark.parametrize(
    "run",
    [
        lambda: _raising(DataError(HOSTILE))(),
        lambda: _raising(KeyError(HOSTILE))(),
        lambda: _raising(RuntimeError(HOSTILE))(),
        lambda: warnings.warn(HOSTILE, PluginWarning, stacklevel=1),
        lambda: warnings.warn(HOSTILE, UserWarning, stacklevel=1),
    ],
)
def test_no_command_for_the_terminal_comes_through_errors_and_warnings(
    run: Callable[[], Any], expunge: Expunge, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_main, "resolve_name", lambda _: lambda: run())
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        ending = expunge("list")
    assert "cat" in ending.err
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & {*ending.out, *ending.err}


def test_a_letter_that_the_terminal_lacks_is_no_error() -> None:
    words = [sys.executable, "-m", "expunge", "list", "methods"]
    done = subprocess.run(
        words, capture_output=True, check=True, env=os.environ | {"PYTHONIOENCODING": "ascii"}
    )
    assert b"SRL" in done.stdout


def test_arguments_hold_no_control_characters(expunge: Expunge) -> None:
    ending = expunge("verify", HOSTILE)
    assert ending.code == 2
    assert r"'cat\x1b]0;title\x07\x1b[2J\x9b31m\u202e'" in ending.err
    assert expunge("list", "one\ntwo").code == 2
