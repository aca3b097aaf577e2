"""Downloads that resume, and get their final name only when complete and verified."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from expunge._errors import DataError, InvalidInput

_CHUNK = 1 << 18
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


def fetch(url: str, path: Path, md5: str, *, timeout: float = 30.0, attempts: int = 3) -> Path:
    """Download ``url`` to ``path`` unless it is there, and return ``path``.

    Bytes are collected in ``path`` + ``.part``, from where a later call (or the next of the
    ``attempts``, after a lost connection) resumes. The file gets its name by an atomic rename once
    its MD5 is verified; with a wrong MD5 it is removed.
    """
    if path.exists():
        return path
    if not _allowed.get():
        raise DataError(
            f"{path} is not there, and nothing is downloaded because a file names it. Name the "
            "data yourself: --data."
        )
    if not url.startswith(("http://", "https://")):
        raise InvalidInput(f"A download should start with http:// or https://. (got {url})")
    part = path.with_name(path.name + ".part")
    remedy = f"Put the file at {path} by hand, or set EXPUNGE_CACHE to a folder that holds it."
    problem: object = "no attempt was made"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"Could not create {path.parent}: {error}. {remedy}") from error
    for _ in range(attempts):
        try:
            if _transfer(url, part, timeout):
                return _verify_and_rename(url, part, path, md5)
            problem = "the connection was cut"
        except urllib.error.URLError as error:  # no network, no such host, no such page
            raise DataError(f"Could not download {url}: {error}. {remedy}") from error
        except (http.client.HTTPException, OSError) as error:
            problem = error
    raise DataError(
        f"Could not finish downloading {url}: {problem}. The partial download is kept in {part}, "
        f"from where the next call resumes. {remedy}"
    )


def _transfer(url: str, part: Path, timeout: float) -> bool:
    """Append what is missing to ``part``; return False if the connection closed early."""
    size = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={size}-"} if size else {})
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not size:
            raise
        return True  # nothing is missing, or too much is there: the checksum will tell
    with response:
        if not _continues(response, size):
            size = 0
        length = response.headers.get("Content-Length")
        total = size + int(length) if length else None
        with part.open("ab" if size else "wb") as file, _bar() as bar:
            task = bar.add_task(url.rsplit("/", 1)[-1], total=total, completed=size)
            while block := response.read(_CHUNK):
                file.write(block)
                size += len(block)
                bar.advance(task, len(block))
    return total is None or size >= total


def _continues(response: http.client.HTTPResponse, size: int) -> bool:
    """Whether the server honoured the range: some send the whole file again."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return False
    start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return start is not None and int(start[1]) == size


def _verify_and_rename(url: str, part: Path, path: Path, md5: str) -> Path:
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if digest != md5:
        part.unlink()
        raise DataError(
            f"{url} should have the MD5 {md5}. (got {digest}) The file was removed; try again, and "
            f"if it persists put an official copy at {path}."
        )
    return part.replace(path)


def _bar() -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        disable=not sys.stderr.isatty(),
    )
