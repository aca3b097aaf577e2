"""Kill commands whose stages run in workers: all processes, the parent alone, or a writer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.fuzz.counts import Counts
from tests.fuzz.killed_commands import audit_words, outcome, tiny_protocol

VICTIMS = ("all", "parent", "writer")
PATIENCE = 120.0
"""Seconds that workers have to notice that their parent is dead."""
ROOT = Path(__file__).parents[2]
Words = Callable[[Path], list[Any]]


def check_processes(folder: Path, sample: int) -> Iterator[tuple[Counts, list[str]]]:
    """Kill at ``sample`` points of each command and victim: the counts, and what went wrong."""
    protocol = tiny_protocol(folder)
    commands: dict[str, Words] = {
        "bench run": lambda place: ["bench", "run", protocol, "-s", place / "store", "-o", place],
        "audit --shadows": lambda place: audit_words(folder, place),
    }
    for name, words in commands.items():
        whole = folder / f"{name} whole"
        code, count = _run(words(whole), 0, "all")
        if code:
            yield Counts(f"{name}, workers", 1, 1), [f"undisturbed, it ends with {code}"]
            continue
        expected = outcome(whole)
        for victim in VICTIMS:
            place, wrong = folder / f"{name} {victim}", []
            chosen = [1 + round(k * count / (sample + 1)) for k in range(1, sample + 1)]
            for n in chosen:
                _run(words(place), n, victim)
                code, _ = _run(words(place), 0, "all")
                if code:
                    wrong.append(f"{victim} at {n} of {count}: the same command ends with {code}")
                elif outcome(place) != expected:
                    wrong.append(f"{victim} at {n} of {count}: another outcome")
                shutil.rmtree(place, ignore_errors=True)
            yield Counts(f"{name} with workers, {victim} killed", len(chosen), len(wrong)), wrong


def _run(words: list[Any], n: int, victim: str) -> tuple[int, int]:
    """Run a command that is killed at its ``n``-th rename: exit code, and renames there were."""
    place = Path(words[-1]).parent
    place.mkdir(parents=True, exist_ok=True)
    counter = place.with_name(f"{place.name}.count")
    counter.write_text("")
    settings = {"KILL_AT": str(n), "KILL_COUNT": str(counter), "KILL_WHOM": victim}
    with subprocess.Popen(
        [sys.executable, "-m", "tests.fuzz.killed_process", *map(str, words)],
        cwd=ROOT,
        env=os.environ | settings,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        code = process.wait()
    deadline = time.monotonic() + PATIENCE
    while _alive(process.pid):
        if time.monotonic() > deadline:
            os.killpg(process.pid, signal.SIGKILL)
            raise AssertionError(f"{words[0]}: workers outlive their parent")
        time.sleep(0.05)
    return code, int(counter.read_text() or 0)


def _alive(group: int) -> bool:
    """Whether any process of a group runs; one that nobody has waited for does not."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of, *_ = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(of) == group and state != "Z":
            return True
    return False
