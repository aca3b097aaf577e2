"""Downloads that resume, and appear under their name only when complete and verified."""

from __future__ import annotations

import hashlib
import http.client
import os
import re
import sys
import urllib.error
import urllib.request
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from expunge._errors import DataError, InvalidInput

_CHUNK = 1 << 18


def cache_dir() -> Path:
    """Where downloads are kept: ``$EXPUNGE_CACHE``, or ``~/.cache/expunge``."""
    chosen = os.environ.get("EXPUNGE_CACHE")
    return Path(chosen).expanduser() if chosen else Path.home() / ".cache" / "expunge"


def fetch(url: str, path: Path, md5: str, *, timeout: float = 30.0, attempts: int = 3) -> Path:
    """Download ``url`` to ``path`` unless it is there, and return ``path``.

    Bytes gather in ``path`` + ``.part``, where a later call (or one of ``attempts`` after a cut
    connection) goes on. The file gets its name by an atomic rename once its MD5 is right; with a
    wrong one it is removed.
    """
    if path.exists():
        return path
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
                return _settle(url, part, path, md5)
            problem = "the connection was cut"
        except urllib.error.URLError as error:  # no network, no such host, no such page
            raise DataError(f"Could not download {url}: {error}. {remedy}") from error
        except (http.client.HTTPException, OSError) as error:
            problem = error
    raise DataError(
        f"Could not finish downloading {url}: {problem}. What came is kept in {part}, and the "
        f"next call goes on from there. {remedy}"
    )


def _transfer(url: str, part: Path, timeout: float) -> bool:
    """Append what is missing to ``part``; False when the connection closed early."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        response = urllib.request.urlopen(request, timeout=timeout)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not have:
            raise
        return True  # nothing is missing, or too much is there: the checksum tells
    with response:
        if not _continues(response, have):
            have = 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        with part.open("ab" if have else "wb") as file, _bar() as bar:
            task = bar.add_task(url.rsplit("/", 1)[-1], total=total, completed=have)
            while block := response.read(_CHUNK):
                file.write(block)
                have += len(block)
                bar.advance(task, len(block))
    return total is None or have >= total


def _continues(response: http.client.HTTPResponse, have: int) -> bool:
    """Whether the server honoured the range: some send the whole file again."""
    if response.status != http.HTTPStatus.PARTIAL_CONTENT:
        return False
    start = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return start is not None and int(start[1]) == have


def _settle(url: str, part: Path, path: Path, md5: str) -> Path:
    with part.open("rb") as file:
        found = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    if found != md5:
        part.unlink()
        raise DataError(
            f"{url} should have the MD5 {md5}. (got {found}) The file was removed; try again, and "
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
