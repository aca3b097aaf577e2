"""Files that appear whole or not at all: temporary name, fsync, rename."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from expunge._errors import StorageError


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A temporary path beside ``path``, moved onto it if the block ends well.

    If the block fails, or the disk is full, ``path`` is as it was and nothing is left behind.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        os.close(handle)
    except OSError as error:
        raise StorageError(f"Cannot write in {path.parent}: {error.strerror}.") from error
    scratch = Path(name)
    try:
        yield scratch
        with scratch.open("rb") as file:
            os.fsync(file.fileno())
        scratch.chmod(0o644)
        scratch.replace(path)
        _sync_directory(path.parent)
    except OSError as error:
        raise StorageError(
            f"Could not write {path}: {error.strerror or error}. What stood there before is kept."
        ) from error
    finally:
        scratch.unlink(missing_ok=True)


def write_text(path: str | Path, text: str) -> None:
    """Write a text file atomically."""
    with atomic(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def refuse_existing(path: str | Path, *, force: bool) -> None:
    """Raise if ``path`` exists and may not be overwritten."""
    if Path(path).exists() and not force:
        raise StorageError(f"{path} exists. Choose another path, or overwrite it with --force.")


def _sync_directory(directory: Path) -> None:
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:  # some systems cannot open directories
        return
    try:
        os.fsync(handle)
    except OSError:
        pass
    finally:
        os.close(handle)
