"""A file lock that the system releases when its holder dies."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from expunge._errors import StorageError


class Locked(StorageError):
    """Another process is working on this stage."""


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Lock ``path`` while the block runs; raise :class:`Locked` at once if another process does.

    The file is removed at the end. Whoever acquires a lock checks that its file is still the one
    in the directory, so a removed file is never held by one process and recreated by another.
    """
    handle = _acquire(path)
    try:
        yield
    finally:
        with suppress(OSError):
            path.unlink()
        os.close(handle)


def _acquire(path: Path) -> int:
    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            _lock(handle)
            if _is_current(handle, path):
                os.ftruncate(handle, 0)
                os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
                return handle
        except BlockingIOError:
            holder = _read_holder(path)
            os.close(handle)
            raise Locked(f"{path} is held by {holder or 'another process'}.") from None
        except OSError as error:
            os.close(handle)
            if error.errno in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS):
                raise StorageError(
                    f"The file system of {path.parent} has no file locks, so two runs could not "
                    "share a store there. Put the store on another one."
                ) from error
            raise
        os.close(handle)


def _lock(handle: int) -> None:
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _is_current(handle: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


def _read_holder(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
