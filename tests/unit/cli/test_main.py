"""Help, versions and exit codes."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import expunge as package
from expunge.bench.protocols import BUILT_IN
from expunge.cli._main import BENCH_COMMANDS, COMMANDS, build_app
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
