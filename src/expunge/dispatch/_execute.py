"""Execute one task: what happens in a worker, whichever engine it belongs to."""

from __future__ import annotations

import importlib
import os
import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from expunge._errors import DataError, InvalidInput
from expunge._files import is_disk_trouble
from expunge.dispatch._engine import TaskResult, TaskStatus
from expunge.dispatch._worker_process import captured_output, output_tail
from expunge.store import Entry, Locked, StageTask, Store, environment, now

OnProgress = Callable[[float, float | None, str], None]


def _ignore(done: float, total: float | None, text: str) -> None:
    pass


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
    on_progress: OnProgress = _ignore

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Report how far the stage is; calls are cheap and may be frequent."""
        self.on_progress(done, total, text)


def execute(
    task: StageTask, store: Store, on_progress: OnProgress, *, capture: bool = False
) -> TaskResult:
    """Run a task and store its result, unless it is stored or another process is running it.

    With ``capture``, what the stage prints goes to ``.output`` in its work folder instead of
    the terminal, which may be showing a progress display.
    """
    began = time.perf_counter()
    warnings: list[str] = []

    def result(status: TaskStatus, **details: Any) -> TaskResult:
        seconds = time.perf_counter() - began
        return TaskResult(task.key, status, seconds, warnings=tuple(warnings), **details)

    try:
        with store.lock(task):
            if _is_stored(task, store, warnings):
                return result("found")
            _compute(task, store, on_progress, capture=capture)
            return result("done")
    except Locked:
        return result("busy")
    except (Exception, SystemExit) as error:
        return result(
            "failed",
            error=type(error).__name__,
            message=str(error),
            traceback=traceback.format_exc(),
            output=output_tail(store.work_path(task)),
            hopeless=is_disk_trouble(error),
        )


def _is_stored(task: StageTask, store: Store, warnings: list[str]) -> bool:
    """Whether an intact result is in the store; a damaged one is set aside with a warning."""
    if not store.has(task):
        return False
    try:
        store.open(task)
    except DataError as error:
        place = store.set_aside(task)
        warnings.append(f"{error} It was moved to {place} and is computed again.")
        return False
    return True


def _compute(task: StageTask, store: Store, on_progress: OnProgress, *, capture: bool) -> None:
    began, started = time.perf_counter(), now()
    # Prepare: the function, the parents' results, the work folder.
    function = resolve(task.run)
    parents = tuple(store.open(parent) for parent in task.parents)
    folder = store.work(task)
    attempts = _count_attempt(folder)
    context = Context(task.config, parents, folder, task.options, task.key, task.title, on_progress)
    # Run, with generators seeded from the key.
    with captured_output(folder) if capture else nullcontext(), _seeded(task.key):
        function(context)
    # Store the folder as the result.
    notes = environment() | {
        "options": task.options,
        "started": started,
        "finished": now(),
        "seconds": round(time.perf_counter() - began, 4),
        "attempts": attempts,
    }
    store.commit(task, notes)


def resolve(run: str) -> Callable[[Context], object]:
    """Import the function that ``"package.module:function"`` names."""
    module, _, name = run.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(f"There is no function {run!r} to run: {error}.") from error
    if not callable(function):
        raise InvalidInput(f"{run!r} is not a function. (got a {type(function).__name__})")
    return function  # type: ignore[no-any-return]


def _count_attempt(folder: Path) -> int:
    path = folder / ".attempts"
    with path.open("a+", encoding="utf-8") as file:
        file.write(f"{now()} process {os.getpid()}\n")
        file.seek(0)
        return len(file.readlines())


@contextmanager
def _seeded(key: str) -> Iterator[None]:
    """Seed every generator from the key, and restore the caller's states afterwards."""
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    random.seed(key)
    np.random.seed(int(key[:8], 16))  # noqa: NPY002
    if torch.cuda.is_available():
        torch.manual_seed(int(key[:15], 16))
    else:  # the same, without recording the call stack for each absent kind of device
        torch.default_generator.manual_seed(int(key[:15], 16))
    try:
        yield
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])
