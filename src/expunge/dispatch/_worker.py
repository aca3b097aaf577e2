"""A worker process of the local engine: takes jobs from a pipe until the pipe closes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import torch

from expunge.dispatch._captured_output import flush_lines
from expunge.dispatch._execute import execute
from expunge.dispatch._throttle import Throttle
from expunge.store import Job, Store


@dataclass(frozen=True)
class Ready:
    """A worker has started."""


def main(pipe: Connection[object, Job | None], root: Path, threads: int) -> None:
    """Execute jobs until there are no more, or the parent is gone."""
    _leave_interrupts_to_the_parent()
    threading.Thread(target=_die_with_the_parent, daemon=True).start()
    threads = min(threads, torch.get_num_threads())  # the user may have asked for fewer
    flush_lines()
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
        pipe.send(execute(job, store, Throttle(pipe.send, job.key), capture=True))


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform != "win32":  # the parent blocked it while this process started
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _die_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
