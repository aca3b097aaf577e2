"""Help, versions and exit codes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import expunge as package
from expunge.cli._main import BENCH_COMMANDS, COMMANDS, build_app
from tests.unit.cli.conftest import Expunge


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(command: str, expunge: Expunge) -> None:
    ending = expunge(command, "--help")
    assert ending.code == 0
    assert f"Example:  expunge {command}" in " ".join(ending.out.split("\n"))


def test_help_lists_the_commands(expunge: Expunge) -> None:
    ending = expunge("--help")
    assert ending.code == 0
    assert {"demo", "train", "retrain", "unlearn", "list"} <= set(COMMANDS)
    assert all(command in ending.out for command in COMMANDS)
    assert expunge("-h").out == ending.out


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


@pytest.mark.parametrize(
    ("line", "word"), [("expunge unl", "unlearn"), ("expunge train --ep", "--epochs")]
)
def test_a_shell_completes_commands_and_options(line: str, word: str) -> None:
    code = "import sys; from expunge.cli import main; sys.argv = ['expunge']; main()"
    asked = {"_EXPUNGE_COMPLETE": "complete_bash", "COMP_WORDS": line}
    asked["COMP_CWORD"] = str(len(line.split()) - 1)
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | asked, capture_output=True, text=True
    )
    assert done.stdout.split() == [word]


def test_version(expunge: Expunge) -> None:
    assert expunge("--version") == (0, f"expunge {package.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("unlern",), ("unlearn",), ("train",), ("--nonsense",)])
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], expunge: Expunge) -> None:
    ending = expunge(*arguments)
    assert ending.code == 2
    assert "Traceback" not in ending.err


def test_the_module_runs_as_a_program_and_help_is_quick() -> None:
    code = (
        "import atexit, runpy, sys; atexit.register(lambda: print('torch' in sys.modules)); "
        "sys.argv[1:] = ['--help']; runpy.run_module('expunge', alter_sys=True)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Start with:" in done.stdout
    assert done.stdout.endswith("False\n")


def test_help_does_not_load_what_only_some_commands_need() -> None:
    code = "import sys, expunge.cli; print(*{'sklearn', 'matplotlib', 'torchjd'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
