"""The store: a directory with one folder per result, each put in place by a rename."""

from __future__ import annotations

import errno
import fcntl
import itertools
import json
import os
import shutil
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from expunge._errors import DataError, InvalidInput, StorageError
from expunge._files import storage_errors, sync, write_text
from expunge.store._entry import ENVIRONMENT, MANIFEST, RESERVED, STAGE, Entry, manifest_text, tree
from expunge.store._stage import Stage, canonical

FORMAT = 1
FORMAT_FILE = "store.json"


class Locked(StorageError):
    """Another process is working on this stage."""


class Store:
    """Results by key, in ``root/<kind>/<key>/``.

    A result's folder appears by an atomic rename when it is complete, so every result was whole
    when it was stored; its manifest shows any damage since. Unfinished work is in ``.work/<key>``,
    errors are in ``.failed``, damaged results in ``.damaged``. Nothing is created before the first
    write.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()
        _check_format(self.root)

    @property
    def exists(self) -> bool:
        """Whether the store has been created."""
        return (self.root / FORMAT_FILE).exists()

    def has(self, stage: Stage) -> bool:
        """Whether the result is there (:meth:`open` checks that it is intact)."""
        return self._place(stage).is_dir()

    def open(self, stage: Stage) -> Entry:
        """Return the result, every byte checked; :class:`DataError` if damaged or absent."""
        if not self.has(stage):
            raise DataError(f"There is no result {stage.kind}/{stage.key} in {self.root}.")
        return Entry(self._place(stage), stage.kind, stage.key).verify()

    def intact(self, stage: Stage) -> bool:
        """Whether the result is there and undamaged."""
        try:
            return self.has(stage) and bool(self.open(stage))
        except DataError:
            return False

    @contextmanager
    def lock(self, stage: Stage) -> Iterator[None]:
        """Lock a stage against other processes; raise :class:`Locked` at once if one holds it."""
        self.prepare()
        with ExitStack() as stack:
            with storage_errors(f"lock {stage.key} in {self.root}"):
                self._hidden("locks")
                stack.enter_context(file_lock(self.lock_path(stage)))
            yield

    def lock_path(self, stage: Stage) -> Path:
        """The path of a stage's lock file, whether or not it exists."""
        return self.root / ".locks" / f"{stage.key}.lock"

    def work(self, stage: Stage) -> Path:
        """Create the folder to compute a stage in: the same for every attempt, until it is done."""
        self.prepare()
        with storage_errors(f"create a work folder in {self.root}"):
            folder = self.work_path(stage)
            folder.mkdir(parents=True, exist_ok=True)
            for name in RESERVED:  # left by an attempt that died just before the rename
                (folder / name).unlink(missing_ok=True)
        return folder

    def work_path(self, stage: Stage) -> Path:
        """The path of that folder, whether or not it exists."""
        return self.root / ".work" / stage.key

    def commit(self, stage: Stage, environment: dict[str, Any]) -> Entry:
        """Turn the work folder into the result; needs the stage's lock.

        Names that begin with a dot are scratch and dropped. If the disk is full, the work folder
        stays as it is, for the next attempt.
        """
        folder, place = self.work_path(stage), self._place(stage)
        if written := [name for name in RESERVED if (folder / name).exists()]:
            raise InvalidInput(f"A stage should not write {written[0]}: the store does.")
        with storage_errors(f"put {stage.title!r} into {self.root}; its files stay in {folder}"):
            notes = {
                "kind": stage.kind,
                "version": stage.version,
                "config": canonical(stage.config),
                "parents": [{"kind": p.kind, "key": p.key} for p in stage.parents],
                "title": stage.title,
                "run": stage.run,
            }
            (folder / STAGE).write_text(json.dumps(notes, indent=1), encoding="utf-8")
            (folder / ENVIRONMENT).write_text(json.dumps(environment), encoding="utf-8")
            (folder / MANIFEST).write_text(manifest_text(folder), encoding="utf-8")
            # Everything is on disk before the rename, and the rename itself after it.
            if not place.parent.is_dir():
                place.parent.mkdir(parents=True, exist_ok=True)
                sync([self.root])
            sync([*tree(folder), folder])
            folder.rename(place)
            sync([place.parent])
        with suppress(OSError):  # not earlier: after a kill, the next attempt needs its checkpoint
            _drop_hidden(place)
        return Entry(place, stage.kind, stage.key)

    def set_aside(self, stage: Stage) -> Path:
        """Move a damaged result to ``.damaged`` for inspection; needs the lock."""
        with storage_errors(f"set {self._place(stage)} aside"):
            folder, name = self._hidden("damaged"), f"{stage.kind}-{stage.key}"
            targets = (folder / f"{name}.{number}" for number in itertools.count(1))
            return self._place(stage).rename(next(path for path in targets if not path.exists()))

    def record_failure(self, stage: Stage, notes: dict[str, Any]) -> None:
        """Write what went wrong to ``.failed/<key>.json``."""
        write_text(self._failure_path(stage), json.dumps(notes, indent=1))

    def failure(self, stage: Stage) -> dict[str, Any] | None:
        """What went wrong at the last attempt, or None."""
        try:
            text = self._failure_path(stage).read_text(encoding="utf-8")
            notes: dict[str, Any] = json.loads(text)
        except (OSError, ValueError):
            return None
        return notes

    def forget_failure(self, stage: Stage) -> None:
        """Remove the record of a failure after a later attempt succeeded."""
        with suppress(OSError):
            self._failure_path(stage).unlink()

    def prepare(self) -> None:
        """Create the store if it does not exist; :class:`StorageError` if that fails."""
        if not self.exists:
            from expunge import __version__

            notes = {"format": FORMAT, "written by": f"expunge {__version__}"}
            write_text(self.root / FORMAT_FILE, json.dumps(notes))

    def _place(self, stage: Stage) -> Path:
        return self.root / stage.kind / stage.key

    def _failure_path(self, stage: Stage) -> Path:
        return self.root / ".failed" / f"{stage.key}.json"

    def _hidden(self, name: str) -> Path:
        folder = self.root / f".{name}"
        folder.mkdir(exist_ok=True)
        return folder


def _drop_hidden(folder: Path) -> None:
    for path in sorted(folder.rglob(".*")):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _check_format(root: Path) -> None:
    """Raise unless ``root`` is a store that this version can read, or may become one."""
    if root.exists() and not root.is_dir():
        raise StorageError(f"{root} is a file. A store is a directory.")
    path = root / FORMAT_FILE
    # Listed before the format is read: another process that creates the store writes that first.
    others = [found.name for found in root.glob("[!.]*") if found != path]
    try:
        version = json.loads(path.read_text(encoding="utf-8"))["format"]
    except (FileNotFoundError, NotADirectoryError):
        if others:
            raise StorageError(
                f"{root} holds other things ({others[0]}) and is not a store. Choose an empty or a "
                "new directory."
            ) from None
        return
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path} is damaged, so its format is unknown: {error!r}.") from error
    if not isinstance(version, int) or version > FORMAT:
        raise StorageError(
            f"The store {root} was written by a newer version of expunge (format {version}; this "
            f"one reads up to {FORMAT}). Upgrade expunge, or use another store."
        )


# Locks, which the system releases when their holder dies.


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
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(handle), path.stat()):
                    os.ftruncate(handle, 0)
                    os.write(handle, f"process {os.getpid()} on {socket.gethostname()}".encode())
                    return handle
        except BlockingIOError:
            holder = os.read(handle, 1024).decode() or "another process"
            os.close(handle)
            raise Locked(f"{path} is held by {holder}.") from None
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
