"""A worker process of the local engine: takes jobs from a pipe until the pipe closes."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from expunge.dispatch.engine import Progress
from expunge.dispatch.execute import execute
from expunge.store import Job, Store


@dataclass(frozen=True)
class Ready:
    """A worker has started."""


class Teller:
    """Passes a stage's progress on, ten times a second at most."""

    def __init__(self, pipe: Connection[object, Job | None], key: str) -> None:
        self.pipe = pipe
        self.key = key
        self._next = 0.0
        self._guard = threading.Lock()

    def __call__(self, done: float, total: float | None, text: str) -> None:
        now = time.monotonic()
        with self._guard:
            if now >= self._next:
                self._next = now + 0.1
                self.pipe.send(Progress(self.key, done, total, text))


def main(pipe: Connection[object, Job | None], root: Path, threads: int) -> None:
    """Execute jobs until there are no more, or the parent is gone."""
    _leave_interrupts_to_the_parent()
    threading.Thread(target=_die_with_the_parent, daemon=True).start()
    threads = min(threads, torch.get_num_threads())  # the user may have asked for fewer
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # what was printed before a kill is not lost
            stream.reconfigure(line_buffering=True)
    store = Store(root)
    pipe.send(Ready())
    while True:
        try:
            job = pipe.recv()
        except (EOFError, OSError):
            return
        if job is None:
            return
        torch.set_num_threads(int(job.options.get("threads") or threads))
        pipe.send(execute(job, store, Teller(pipe, job.key), capture=True))


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":  # the parent blocked it while this process started
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _die_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
