"""Execute one stage: what happens in a worker, whichever engine it belongs to."""

from __future__ import annotations

import io
import json
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np
import torch

from expunge._environment import environment, now
from expunge._errors import DataError, InvalidInput
from expunge._files import is_disk_trouble
from expunge.dispatch._engine import OutcomeStatus, StageOutcome
from expunge.store import Entry, Locked, Stage, Store, canonical

OUTPUT_FILE, PROGRESS_FILE = ".output", ".progress"
PAUSE = 0.1
"""Seconds between two reports of a stage's progress."""


@dataclass(frozen=True)
class Context:
    """The argument of a stage's function.

    Write result files into ``folder``; everything in it when the function returns is the result,
    except names that begin with a dot, which are scratch. The folder survives a kill and is handed
    to the next attempt: a checkpoint in it lets the stage resume. Random generators are seeded from
    the key, so it does not matter what ran in the same worker before.
    """

    config: dict[str, Any]
    parents: tuple[Entry, ...]
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    title: str = ""
    on_progress: Callable[[float, float | None, str], object] = lambda done, total, text: None

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Report how far the stage is; calls are cheap and may be frequent."""
        self.on_progress(done, total, text)


def execute(stage: Stage, store: Store, *, capture: bool = False) -> StageOutcome:
    """Run and store a stage, unless that is done or under way; ``capture`` its output in a file."""
    began = time.perf_counter()
    warnings: list[str] = []

    def result(status: OutcomeStatus, **details: Any) -> StageOutcome:
        seconds = time.perf_counter() - began
        return StageOutcome(stage, status, seconds, warnings=tuple(warnings), **details)

    try:
        with store.lock(stage):
            if _is_stored(stage, store, warnings):
                return result("found")
            _compute(stage, store, capture=capture)
            return result("done")
    except Locked:
        return result("busy")
    except (Exception, SystemExit) as error:
        return result(
            "failed",
            error=type(error).__name__,
            message=str(error),
            traceback=traceback.format_exc(),
            output=output_tail(store.work_path(stage)),
            hopeless=is_disk_trouble(error),
        )


class InlineEngine:
    """Executes one stage at a time in the calling process, for tests and examples."""

    capacity = 1

    def __init__(self, store: Store) -> None:
        self.store = store
        self._stages: list[Stage] = []

    def submit(self, stage: Stage) -> None:
        self._stages.append(stage)

    def poll(self, timeout: float) -> Iterable[StageOutcome]:
        return [execute(self._stages.pop(), self.store)]

    def close(self, *, kill: bool = False) -> None:
        self._stages.clear()


def _is_stored(stage: Stage, store: Store, warnings: list[str]) -> bool:
    """Whether an intact result is in the store; a damaged one is set aside with a warning."""
    if not store.has(stage):
        return False
    try:
        store.open(stage)
    except DataError as error:
        place = store.set_aside(stage)
        warnings.append(f"{error} It was moved to {place} and is computed again.")
        return False
    return True


def _compute(stage: Stage, store: Store, *, capture: bool) -> None:
    began, processor, started = time.perf_counter(), time.process_time(), now()
    # Prepare: the function, the parents' results, the work folder.
    function = _find_function(stage.run)
    parents = tuple(store.open(parent) for parent in stage.parents)
    folder = store.work(stage)
    tries = _count_try(folder)
    config, options = canonical(stage.config), canonical(stage.options, "options")
    facts = (config, parents, folder, options, stage.key, stage.title)
    context = Context(*facts, on_progress=ProgressFile(folder))
    # Run, with generators seeded from the key.
    with captured_output(folder) if capture else nullcontext(), _seeded(stage.key):
        function(context)
    # Store the folder as the result.
    notes = environment() | {
        "options": options,
        "started": started,
        "finished": now(),
        "seconds": round(time.perf_counter() - began, 4),
        "processor_seconds": round(time.process_time() - processor, 4),
        "tries": tries,
    }
    store.commit(stage, notes)


def _find_function(run: str) -> Any:
    """Import the function that ``"package.module:function"`` names."""
    try:
        function = resolve_name(run)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidInput(f"There is no function {run!r} to run: {error}.") from error
    if not callable(function):
        raise InvalidInput(f"{run!r} is not a function. (got a {type(function).__name__})")
    return function


def _count_try(folder: Path) -> int:
    with (folder / ".tries").open("a+", encoding="utf-8") as file:
        file.write(f"{now()} process {os.getpid()}\n")
        file.seek(0)
        return len(file.readlines())


@contextmanager
def _seeded(key: str) -> Iterator[None]:
    """Seed every generator from the key, and restore the caller's states afterwards."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    random.seed(key)
    np.random.seed(int(key[:8], 16))  # noqa: NPY002
    torch.manual_seed(int(key[:15], 16))
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


# What a stage prints, and how far it is.


@contextmanager
def captured_output(folder: Path) -> Iterator[None]:
    """Redirect standard output and error, also of C code, to ``.output``, line by line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)
    target = os.open(folder / OUTPUT_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    originals = os.dup(1), os.dup(2)
    _redirect(target, target)
    try:
        yield
    finally:
        _redirect(*originals)
        for handle in (target, *originals):
            os.close(handle)


def _redirect(output: int, error: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(output, 1)
    os.dup2(error, 2)


def output_tail(folder: Path, size: int = 4000) -> str:
    """The end of what a stage printed, or "" if nothing was kept."""
    try:
        with (folder / OUTPUT_FILE).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


class ProgressFile:
    """Writes how far a stage is into its work folder, at most once in :data:`PAUSE` seconds."""

    def __init__(self, folder: Path) -> None:
        self.path, self._next, self._guard = folder / PROGRESS_FILE, 0.0, threading.Lock()

    def __call__(self, done: float, total: float | None, text: str) -> None:
        with self._guard, suppress(OSError):  # a lost message is no reason to fail
            if time.monotonic() >= self._next:
                self._next = time.monotonic() + PAUSE
                self.path.write_text(json.dumps([done, total, text]), encoding="utf-8")


def read_progress(folder: Path) -> tuple[float, float | None, str] | None:
    """How far the stage of a work folder is; None where it has not said so yet."""
    try:
        done, total, text = json.loads((folder / PROGRESS_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or half written
        return None
    return done, total, text
