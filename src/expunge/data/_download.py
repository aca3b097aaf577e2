"""Downloads, which get their final name only when complete and verified."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from http.client import HTTPException
from pathlib import Path

from rich.console import Console
from rich.progress import wrap_file

from expunge._errors import DataError
from expunge._files import atomic

TIMEOUT = 30.0
"""Seconds without a byte after which a download is given up."""
_allowed = ContextVar("downloads are allowed", default=True)


def cache_dir() -> Path:
    """The folder for downloads: ``$EXPUNGE_CACHE``, or ``~/.cache/expunge``."""
    chosen = os.environ.get("EXPUNGE_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "expunge"


@contextmanager
def no_downloads() -> Iterator[None]:
    """Read data that are here already: a file names them, and nobody has asked for a download."""
    before = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(before)


def fetch(url: str, path: Path, md5: str) -> Path:
    """Download ``url`` to ``path`` unless it is there, and return ``path``.

    A file that is incomplete or has another MD5 is removed.
    """
    if path.exists():
        return path
    if not _allowed.get():
        raise DataError(
            f"{path} is not there, and nothing is downloaded because a file names it. Name the "
            "data yourself: --data."
        )
    with atomic(path) as part:
        try:
            _transfer(url, part)
        except (HTTPException, OSError, ValueError) as error:  # no network, no such page
            raise DataError(
                f"Could not download {url}: {error}. Put the file at {path} by hand, or set "
                "EXPUNGE_CACHE to a folder that holds it."
            ) from error
        with part.open("rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        if digest.hexdigest() != md5:
            raise DataError(
                f"{url} should have the MD5 {md5}. (got {digest.hexdigest()}) The file was "
                f"removed. Try again; if it persists, put an official copy at {path}."
            )
    return path


def _transfer(url: str, part: Path) -> None:
    """Write what ``url`` gives to ``part``, with a progress bar in a terminal."""
    with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
        content = wrap_file(
            response,
            total=int(response.headers.get("Content-Length") or 0),
            description=url.rsplit("/", 1)[-1],
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        with content as source, part.open("wb") as file:
            shutil.copyfileobj(source, file)
