"""Help, lists and mistakes in arguments do not wait for torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from expunge.cli._list import KINDS
from expunge.cli._main import BENCH_COMMANDS, COMMANDS

HEAVY = {"torch", "numpy", "sklearn", "scipy", "matplotlib", "ray", "transformers", "torchjd"}
"""What no command may import before its work starts."""

ALL = [[], *([name] for name in COMMANDS), ["bench"], *(["bench", name] for name in BENCH_COMMANDS)]
LISTS = [["list"], *(["list", kind] for kind in KINDS)]
# FILE exists and FOLDER is empty; OUT does not exist.
UNLEARN = ["unlearn", "FILE", "-f", "random:0.1", "-o", "OUT"]
TRAIN = ["train", "-o", "OUT"]
AUDIT = ["audit", "FILE", "-o", "OUT"]
FORGET = ["forget", "-o", "OUT", "--weights", "FILE", "--ids", "FILE"]
MISTAKES = [
    ["unlern"],
    ["--nonsense"],
    ["unlearn"],
    ["list", "addon"],
    [*UNLEARN, "--epocs", "3"],
    [*UNLEARN, "--epochs", "many"],
    [*UNLEARN, "--epochs", "0"],
    [*UNLEARN, "--lr", "-1"],
    [*UNLEARN, "--batchnorm", "none"],
    [*UNLEARN, "-m", "random-lable"],
    [*UNLEARN, "-a", "fokus"],
    [*UNLEARN, "--moments", "addam"],
    [*UNLEARN, "-a", "PROB", "--p", "1.2"],
    [*UNLEARN, "--aggregate", "linaer"],
    [*UNLEARN, "--alpha", "-1"],
    [*UNLEARN, "--aggregate", "min-abs", "--alpha", "1"],
    [*UNLEARN, "-f", "randon:0.1"],
    [*UNLEARN, "-f", "random:2"],
    [*UNLEARN, "-f", "ids:/nowhere"],
    [*UNLEARN, "--ideal", "/nowhere"],
    [*UNLEARN, "--data", "digitz"],
    [*UNLEARN, "--data", "npz:/nowhere.npz"],
    [*UNLEARN, "-o", "FILE"],
    ["unlearn", "/nowhere", "-f", "random:0.1", "-o", "OUT"],
    ["retrain", "/nowhere", "-f", "random:0.1", "-o", "OUT"],
    ["retrain", "FILE", "-f", "random", "-o", "OUT"],
    [*TRAIN, "--epochs", "0"],
    [*TRAIN, "--model", "small-cmm"],
    [*TRAIN, "--width", "0"],
    [*TRAIN, "--data", "folder"],
    [*TRAIN, "--limit", "0"],
    [*TRAIN, "--schedule", "cosine"],
    ["audit", "/nowhere", "-o", "OUT"],
    [*AUDIT, "--shadows", "3"],
    ["forget"],
    [*FORGET, "-m", "random-lable"],
    [*FORGET, "--max-epochs", "0"],
    [*FORGET, "--ids", "/nowhere"],
    [*FORGET, "--weights", "/nowhere"],
    ["forget", "--job", "/nowhere"],
    ["verify", "FOLDER"],
    ["ledger", "FOLDER"],
    ["bench", "plan", "demoo"],
    ["bench", "run", "demo", "--track", "tensorbord"],
    ["bench", "run", "demo", "--address", "auto"],
    ["bench", "run", "demo", "--data", "/nowhere"],
    ["bench", "table"],
    ["bench", "table", "demo", "--name", "table9"],
    ["bench", "table", "--records", "/nowhere"],
    ["bench", "figure", "demo", "--name", "maskin"],
    ["bench", "claims", "demo", "--name", "focus"],
    ["bench", "claims", "demo", "--out", "OUT"],
]

SCRIPT = """
import io, sys
from contextlib import redirect_stderr, redirect_stdout

from expunge.cli import main

for line in sys.stdin:
    sys.argv = ["expunge", *line.split()]
    said, code = io.StringIO(), 0
    try:
        with redirect_stdout(said), redirect_stderr(said):
            main()
    except SystemExit as ending:
        code = ending.code
    loaded = [name for name in HEAVY if name in sys.modules]
    print(code, *loaded, "traceback" if "Traceback" in said.getvalue() else "")
    if loaded:
        break
"""


def endings(commands: list[list[str]], folder: Path) -> list[tuple[list[str], list[str]]]:
    """Each command line with its exit code and the heavy modules that are loaded after it.

    All run in one process, one after the other, which ends at the first that loads any.
    """
    (folder / "file.safetensors").write_text("")
    (folder / "folder").mkdir()
    places = {"FILE": "file.safetensors", "FOLDER": "folder", "OUT": "out"}
    lines = [[str(folder / places[w]) if w in places else w for w in words] for words in commands]
    done = subprocess.run(
        [sys.executable, "-c", f"HEAVY = {HEAVY!r}\n{SCRIPT}"],
        input="".join(" ".join(words) + "\n" for words in lines),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    return [(words, line.split()) for words, line in zip(commands, done.stdout.splitlines())]  # noqa: B905


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_loads_nothing_heavy(option: str, tmp_path: Path) -> None:
    commands = [["--version"], *([*command, option] for command in ALL)]
    assert endings(commands, tmp_path) == [(command, ["0"]) for command in commands]


def test_lists_load_nothing_heavy(tmp_path: Path) -> None:
    assert endings(LISTS, tmp_path) == [(command, ["0"]) for command in LISTS]


def test_mistakes_in_arguments_load_nothing_heavy(tmp_path: Path) -> None:
    found = endings(MISTAKES, tmp_path)
    assert [both for both in found if both[1] not in (["1"], ["2"])] == []
    assert len(found) == len(MISTAKES)
