"""Files that appear whole or not at all, and stay: temporary name, fsync, rename."""

from __future__ import annotations

import errno
import fcntl
import functools
import glob
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path

from expunge._errors import DataError, InvalidInput, StorageError

_DISK_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG}


@contextmanager
def atomic(path: str | Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary path beside ``path``, and move it there if the block succeeds.

    Only a regular file is ever replaced. If the block fails, or the disk is full, ``path`` is
    unchanged and nothing is left behind; what a killed process left behind is removed by the next
    that writes the same file. A ``private`` file can be read by its owner alone (mode 600): it
    holds personal data, or a model that remembers them.
    """
    path = Path(path)
    _check_replaceable(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(path)
        scratch, release = _create_scratch(path)
    except OSError as error:
        raise StorageError(f"Cannot write in {path.parent}: {error.strerror}.") from error
    try:
        yield scratch
        with scratch.open("rb") as file:
            os.fsync(file.fileno())
        scratch.chmod(0o600 if private else 0o644)
        scratch.replace(path)
        with suppress(OSError):  # the file is complete; some systems cannot sync directories
            sync([path.parent])
    except OSError as error:
        raise StorageError(
            f"Could not write {path}: {error.strerror or error}. The previous content is kept."
        ) from error
    finally:
        scratch.unlink(missing_ok=True)
        release()


def _create_scratch(path: Path) -> tuple[Path, Callable[[], None]]:
    """A temporary file beside ``path``, locked until the returned function is called."""
    while True:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        if not _lock_scratch(handle, wait=True):
            os.close(handle)
            return Path(name), lambda: None
        if Path(name).exists():
            return Path(name), functools.partial(os.close, handle)
        os.close(handle)  # another process took it for abandoned before it was locked


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files of ``path`` whose writers are dead: nobody holds their locks."""
    for scratch in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            handle = os.open(scratch, os.O_RDWR)
            try:
                if _lock_scratch(handle, wait=False):
                    scratch.unlink()
            finally:
                os.close(handle)


def _lock_scratch(handle: int, *, wait: bool) -> bool:
    """Lock a file; whether that was possible (not on file systems without locks)."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def write_text(path: str | Path, text: str, *, private: bool = False) -> None:
    """Write a text file atomically."""
    with atomic(path, private=private) as scratch:
        scratch.write_text(text, encoding="utf-8")


def require_file(path: str | Path) -> None:
    """Raise unless ``path`` is a regular file, or a link to one."""
    path = Path(path)
    if not is_there(path):
        raise DataError(f"There is no file {path}.")
    if not path.is_file():
        raise DataError(f"{path} should be a regular file. (got {kind_of(path.resolve())})")


def is_there(path: Path) -> bool:
    """Whether there is anything at ``path``; never at a name that no file can have."""
    with suppress(OSError, ValueError):  # too long, or with a null byte
        return path.exists()
    return False


def read_text(path: str | Path, kind: str) -> str:
    """The text of a regular file, without a byte-order mark; ``kind`` says what it should be."""
    path = Path(path)
    try:
        if path.exists() and not path.is_file():
            raise DataError(
                f"{path} should be a regular {kind} file. (got {kind_of(path.resolve())}) Save "
                "what it gives into a file first."
            )
        return path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:  # not UTF-8, or a name with a null byte
        reason = "there is no such file" if isinstance(error, FileNotFoundError) else error
        raise DataError(f"{path} cannot be read as a {kind} file: {reason}.") from error


def open_regular(path: str | Path) -> BufferedReader:
    """Open a regular file to read; ``OSError`` for a pipe or a device, which might never end."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return os.fdopen(handle, "rb")


def read_regular(path: str | Path) -> bytes:
    """The bytes of a regular file: see :func:`open_regular`."""
    with open_regular(path) as file:
        return file.read()


def kind_of(path: Path) -> str:
    """What is at a path that does not follow links: a file, a link, a folder, a pipe, a device."""
    if path.is_symlink():
        return f"a link to {path.readlink()}"
    kinds = {"a file": path.is_file, "a folder": path.is_dir, "a pipe": path.is_fifo}
    return next((name for name, holds in kinds.items() if holds()), "a device or a socket")


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file's bytes."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refuse_existing(path: str | Path, *, force: bool) -> None:
    """Raise if ``path`` exists and may not be overwritten: only regular files may, by ``force``."""
    path = Path(path)
    _check_replaceable(path)
    if path.exists() and not force:
        raise StorageError(f"{path} exists. Choose another path, or overwrite it with --force.")


def refuse_no_folder(path: str | Path) -> None:
    """Raise if ``path`` cannot become a folder: it, or what it lies below, is something else."""
    path = Path(path)
    with storage_errors(f"write in {path}"):
        there = next((p for p in (path, *path.parents) if p.is_symlink() or p.exists()), path)
        if (there.is_symlink() or there.exists()) and not there.is_dir():
            raise StorageError(
                f"{there} should be a folder. (got {kind_of(there)}) Choose another path."
            )


def _check_replaceable(path: Path) -> None:
    """Raise unless there is nothing at ``path``, or a regular file; a link to one is refused."""
    with storage_errors(f"write {path}"):
        there = path.is_symlink() or path.exists()
        if there and (path.is_symlink() or not path.is_file()):
            raise StorageError(
                f"Only regular files are overwritten. ({path} is {kind_of(path)}) Choose another "
                "path, or remove it yourself."
            )


def sync(paths: Iterable[Path]) -> None:
    """Force files and directories out to the disk, as far as the system can sync directories."""
    for path in paths:
        try:
            handle = os.open(path, os.O_RDONLY)
        except PermissionError:
            if path.is_dir():
                continue
            raise
        try:
            os.fsync(handle)
        except OSError as error:
            if not (path.is_dir() and error.errno in (errno.EINVAL, errno.ENOTSUP)):
                raise
        finally:
            os.close(handle)


@contextmanager
def storage_errors(action: str) -> Iterator[None]:
    """Turn the system's errors into a :class:`StorageError` that says what could not be done."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"Could not {action}: {error.strerror or error}.") from error


def is_disk_trouble(error: BaseException | None) -> bool:
    """Whether an error comes from a full or read-only disk, so that retrying is pointless."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _DISK_TROUBLE:
            return True
        # safetensors reports the system's errors from Rust, as text
        if any(f"(os error {code})" in str(error) for code in _DISK_TROUBLE):
            return True
        error = error.__cause__
    return False


TORCH_SUFFIXES = (".pt", ".pth", ".bin", ".ckpt")
"""Endings of weights that ``torch.save`` wrote."""


def check_weights_file(path: Path) -> None:
    """Raise unless ``path`` is a file of a kind that weights are read from."""
    if not (is_there(path) and path.is_file()):
        raise DataError(f"There is no weights file {path}. Check the path.")
    _check_weights_suffix(path)


def check_weights_out(path: Path, *, force: bool) -> None:
    """Raise unless weights may be written to ``path``, and read again."""
    refuse_existing(path, force=force)
    _check_weights_suffix(path)


def _check_weights_suffix(path: Path) -> None:
    if path.suffix.lower() not in (".safetensors", *TORCH_SUFFIXES):
        raise InvalidInput(
            f"A weights file should end in .safetensors, {', '.join(TORCH_SUFFIXES)}. "
            f"(got {path.name})"
        )
