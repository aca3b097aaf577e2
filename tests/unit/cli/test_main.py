"""Help, lists, versions and exit codes."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

import expunge as package
from expunge.cli._list import KINDS
from expunge.cli._main import app
from tests.unit.cli.conftest import Expunge

COMMANDS = [command.name for command in app.registered_commands]


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


@pytest.mark.parametrize("kind", list(KINDS))
def test_list_shows_every_part_of_a_kind_with_a_line_about_it(kind: str, expunge: Expunge) -> None:
    ending = expunge("list", kind)
    assert ending.code == 0
    lines = ending.out.splitlines()
    for name in KINDS[kind]:
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert len(line.split()) > 3, f"{name} is not described"
        assert KINDS[kind].label(name) in line


def test_list_shows_all_kinds(expunge: Expunge) -> None:
    ending = expunge("list")
    assert ending.code == 0
    lines = [line.strip() for line in ending.out.splitlines()]
    assert [line for line in lines if line in KINDS] == list(KINDS)


def test_an_unknown_kind_is_wrong_usage(expunge: Expunge) -> None:
    ending = expunge("list", "addon")
    assert ending.code == 2
    assert ending.err == "Wrong usage: Unknown kind of part 'addon'. Did you mean 'addons'?\n"


def test_version(expunge: Expunge) -> None:
    assert expunge("--version") == (0, f"expunge {package.__version__}\n", "")


@pytest.mark.parametrize("arguments", [("unlern",), ("unlearn",), ("train",), ("--nonsense",)])
def test_wrong_usage_ends_with_2(arguments: tuple[str, ...], expunge: Expunge) -> None:
    ending = expunge(*arguments)
    assert ending.code == 2
    assert "Traceback" not in ending.err


def processor_seconds(*arguments: str) -> tuple[float, str]:
    """What a Python process costs, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def test_the_module_runs_as_a_program_and_help_is_quick() -> None:
    torch_alone, _ = processor_seconds("-c", "import torch")
    seconds, shown = processor_seconds("-m", "expunge", "--help")
    assert "Start with:" in shown
    # Nearly all of it is torch; the ratio holds on a busy machine too.
    assert seconds < max(3.0, 2 * torch_alone)


def test_help_does_not_load_what_only_some_commands_need() -> None:
    code = "import sys, expunge.cli; print(*{'sklearn', 'matplotlib', 'torchjd'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
