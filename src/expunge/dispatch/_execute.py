"""Do one job: what happens in a worker, whichever engine it belongs to."""

from __future__ import annotations

import importlib
import os
import random
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from expunge._errors import DataError, InvalidInput
from expunge.dispatch._captured_output import captured, tail
from expunge.dispatch._context import Context, Teller
from expunge.dispatch._engine import Result
from expunge.store import Job, Locked, Store
from expunge.store._durable import disk_trouble
from expunge.store._environment import environment, now


def execute(job: Job, store: Store, tell: Teller, *, capture: bool = False) -> Result:
    """Run a job and store its result, unless it is there or another process is at it.

    With ``capture``, what the stage prints goes to ``.output`` in its work folder instead of
    the terminal, where a display may be at work.
    """
    began = time.perf_counter()
    warnings: list[str] = []

    def ending(status: Any, **notes: Any) -> Result:
        seconds = time.perf_counter() - began
        return Result(job.key, status, seconds, warnings=tuple(warnings), **notes)

    try:
        with store.lock(job):
            if _reuse(job, store, warnings):
                return ending("found")
            _compute(job, store, tell, capture=capture)
            return ending("done")
    except Locked:
        return ending("busy")
    except (Exception, SystemExit) as error:
        return ending(
            "failed",
            error=type(error).__name__,
            message=str(error),
            traceback=traceback.format_exc(),
            output=tail(store.root / ".work" / job.key),
            hopeless=disk_trouble(error),
        )


def _reuse(job: Job, store: Store, warnings: list[str]) -> bool:
    if not store.has(job):
        return False
    try:
        store.open(job)
    except DataError as error:
        place = store.set_aside(job)
        warnings.append(f"{error} It was moved to {place} and is computed again.")
        return False
    return True


def _compute(job: Job, store: Store, tell: Teller, *, capture: bool) -> None:
    began, started = time.perf_counter(), now()
    function = resolve(job.run)
    parents = tuple(store.open(parent) for parent in job.parents)
    folder = store.work(job)
    attempts = _count_attempt(folder)
    context = Context(job.config, parents, folder, job.options, job.key, job.title, tell)
    with captured(folder) if capture else nullcontext(), _own_randomness(job.key):
        function(context)
    notes = environment() | {
        "options": job.options,
        "started": started,
        "finished": now(),
        "seconds": round(time.perf_counter() - began, 4),
        "attempts": attempts,
    }
    store.commit(job, notes)


def resolve(run: str) -> Callable[[Context], object]:
    """The function behind ``"package.module:function"``."""
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
def _own_randomness(key: str) -> Iterator[None]:
    """Seed every generator from the key, and put the caller's states back afterwards."""
    kept = random.getstate(), np.random.get_state(), torch.get_rng_state()  # noqa: NPY002
    random.seed(key)
    np.random.seed(int(key[:8], 16))  # noqa: NPY002
    if torch.cuda.is_available():
        torch.manual_seed(int(key[:15], 16))
    else:  # the same, without a note of the call stack for each absent kind of device
        torch.default_generator.manual_seed(int(key[:15], 16))
    try:
        yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])  # noqa: NPY002
        torch.set_rng_state(kept[2])
