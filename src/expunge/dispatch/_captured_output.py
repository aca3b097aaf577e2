"""Keep what a stage prints with its work, off the terminal that shows the progress of all."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = ".output"


@contextmanager
def captured(folder: Path) -> Iterator[None]:
    """Send standard output and error, of C code as well, to ``.output`` in ``folder``."""
    target = os.open(folder / NAME, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    kept = os.dup(1), os.dup(2)
    _switch(target, target)
    try:
        yield
    finally:
        _switch(*kept)
        for handle in (target, *kept):
            os.close(handle)


def flush_lines() -> None:
    """Write what is printed at the end of each line, so that it is not lost in a kill."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(line_buffering=True)


def tail(folder: Path, size: int = 4000) -> str:
    """The end of what a stage printed, if it is still there."""
    try:
        with (folder / NAME).open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


def _switch(output: int, error: int) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    os.dup2(output, 1)
    os.dup2(error, 2)
