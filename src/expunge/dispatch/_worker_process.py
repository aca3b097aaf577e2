"""The setup every worker process shares: threads, captured output, throttled progress."""

from __future__ import annotations

import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from expunge.dispatch._engine import Progress

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Libraries with their own thread pools read these when they are loaded."""

OUTPUT_FILE = ".output"


@contextmanager
def environment_defaults(values: Mapping[str, str]) -> Iterator[None]:
    """Set the environment variables that the user has not set; unset them at the end.

    >>> with environment_defaults({"EXPUNGE_EXAMPLE": "1"}):
    ...     os.environ["EXPUNGE_EXAMPLE"]
    '1'
    >>> "EXPUNGE_EXAMPLE" in os.environ
    False
    """
    missing = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


@contextmanager
def captured_output(folder: Path) -> Iterator[None]:
    """Redirect standard output and error, including that of C code, to ``.output`` in ``folder``.

    The terminal shows the progress of all stages; what one of them prints stays with its work.
    """
    target = os.open(folder / OUTPUT_FILE, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    originals = os.dup(1), os.dup(2)
    _redirect(target, target)
    try:
        yield
    finally:
        _redirect(*originals)
        for handle in (target, *originals):
            os.close(handle)


def flush_every_line() -> None:
    """Write printed text at the end of each line, so that a kill does not lose it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def output_tail(folder: Path, size: int = 4000) -> str:
    """Return the end of what a stage printed, or "" if nothing was kept."""
    try:
        with (folder / OUTPUT_FILE).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _redirect(output: int, error: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(output, 1)
    os.dup2(error, 2)


class ThrottledProgress:
    """A progress callback that sends at most one message per ``pause`` seconds.

    A stage may report its progress at every step; only a few of these messages are worth sending.
    """

    def __init__(self, send: Callable[[Progress], object], key: str, pause: float = 0.1) -> None:
        self.send = send
        self.key = key
        self.pause = pause
        self._next = 0.0
        self._guard = threading.Lock()

    def __call__(self, done: float, total: float | None, text: str) -> None:
        now = time.monotonic()
        with self._guard:
            if now >= self._next:
                self._next = now + self.pause
                self.send(Progress(self.key, done, total, text))
