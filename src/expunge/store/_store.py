"""The store: one directory, one folder a result, each put in place by a rename."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from expunge._errors import DataError, InvalidInput
from expunge.store._durable import storage, sync
from expunge.store._entry import ENVIRONMENT, STAGE, Entry
from expunge.store._format import check_format, create_store
from expunge.store._locks import file_lock
from expunge.store._manifest import NAME as MANIFEST
from expunge.store._manifest import Manifest, tree
from expunge.store._stage import Job, Keyed

RESERVED = (STAGE, ENVIRONMENT, MANIFEST)


class Store:
    """Results by key, in ``root/<kind>/<key>/``.

    A result's folder appears by an atomic rename when it is complete, so whatever is there is
    whole; what happened to it since shows in its manifest. Unfinished work is in ``.work/<key>``,
    errors in ``.failed``, what was found damaged in ``.damaged``. Nothing is created before
    something is written.
    """

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()
        check_format(self.root)

    def has(self, stage: Keyed) -> bool:
        """Whether the result is there (:meth:`open` tells whether it is intact)."""
        return self._place(stage).is_dir()

    def open(self, stage: Keyed) -> Entry:
        """The result, every byte checked; damaged or absent, a :class:`DataError`."""
        if not self.has(stage):
            raise DataError(f"There is no result {stage.kind}/{stage.key} in {self.root}.")
        return Entry(self._place(stage), stage.kind, stage.key).verify()

    def intact(self, stage: Keyed) -> bool:
        """Whether the result is there and undamaged."""
        try:
            return self.has(stage) and bool(self.open(stage))
        except DataError:
            return False

    def entries(self, kind: str | None = None) -> Iterator[Entry]:
        """All results, by kind and key; their bytes are not checked (``entry.verify()`` does)."""
        for folder in sorted(self.root.glob(f"{kind or '[!.]*'}/*/")):
            yield Entry(folder, folder.parent.name, folder.name)

    def remove(self, stage: Keyed) -> None:
        """Take a result and any unfinished work away, at once; absent ones are no error."""
        folders = [path for path in (self._place(stage), self._work(stage)) if path.is_dir()]
        if not folders:
            return
        with self.lock(stage), storage(f"remove {self._place(stage)}"):
            trash = self._hidden("trash") / stage.key
            shutil.rmtree(trash, ignore_errors=True)
            trash.mkdir()
            for index, folder in enumerate(folders):
                folder.rename(trash / str(index))
            shutil.rmtree(trash)

    @contextmanager
    def lock(self, stage: Keyed) -> Iterator[None]:
        """Keep all other processes off a stage; :class:`Locked` at once if one is at it."""
        self.prepare()
        with storage(f"lock {stage.key} in {self.root}"):
            holder = file_lock(self._hidden("locks") / f"{stage.key}.lock")
            holder.__enter__()
        try:
            yield
        finally:
            holder.__exit__(None, None, None)

    def work(self, stage: Keyed) -> Path:
        """The folder to compute a stage in: the same one at every attempt, until it is done."""
        self.prepare()
        with storage(f"create a work folder in {self.root}"):
            folder = self._work(stage)
            folder.mkdir(parents=True, exist_ok=True)
            for name in RESERVED:  # of an attempt that died between its last file and the rename
                (folder / name).unlink(missing_ok=True)
        return folder

    def commit(self, job: Job, environment: dict[str, Any]) -> Entry:
        """Turn the work folder into the result; needs the stage's lock.

        Names that begin with a dot are scratch and dropped. If the disk is full, the work folder
        stays as it is, for the next attempt.
        """
        folder, place = self._work(job), self._place(job)
        if taken := [name for name in RESERVED if (folder / name).exists()]:
            raise InvalidInput(f"A stage should not write {taken[0]}: the store does.")
        with storage(f"put {job.title!r} into {self.root}; its files are kept in {folder}"):
            notes = {
                "kind": job.kind,
                "version": job.version,
                "config": job.config,
                "parents": [{"kind": p.kind, "key": p.key} for p in job.parents],
                "title": job.title,
                "run": job.run,
            }
            (folder / STAGE).write_text(json.dumps(notes, indent=1), encoding="utf-8")
            (folder / ENVIRONMENT).write_text(json.dumps(environment), encoding="utf-8")
            (folder / MANIFEST).write_text(Manifest.of(folder).dumps(), encoding="utf-8")
            if not place.parent.is_dir():
                place.parent.mkdir(parents=True, exist_ok=True)
                sync([self.root])
            sync([*tree(folder), folder])
            folder.rename(place)
            sync([place.parent])
        with suppress(OSError):  # only now: until here, a kill may leave a need for a checkpoint
            _drop_hidden(place)
        return Entry(place, job.kind, job.key)

    def set_aside(self, stage: Keyed) -> Path:
        """Move a damaged result to ``.damaged``, where it can be looked at; needs the lock."""
        with storage(f"set {self._place(stage)} aside"):
            shelf = self._hidden("damaged")
            for number in itertools.count(1):
                target = shelf / f"{stage.kind}-{stage.key}.{number}"
                if not target.exists():
                    return self._place(stage).rename(target)
        raise AssertionError

    def record_failure(self, stage: Keyed, notes: dict[str, Any]) -> None:
        """Keep what went wrong in ``.failed/<key>.json``."""
        with storage(f"record a failure in {self.root}"):
            path = self._hidden("failed") / f"{stage.key}.json"
            scratch = path.with_suffix(f".{os.getpid()}.tmp")
            scratch.write_text(json.dumps(notes, indent=1), encoding="utf-8")
            scratch.replace(path)

    def failure(self, stage: Keyed) -> dict[str, Any] | None:
        """What went wrong the last time, if it did."""
        try:
            path = self.root / ".failed" / f"{stage.key}.json"
            notes: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return notes

    def forget_failure(self, stage: Keyed) -> None:
        """Drop the record of a failure that has been made good."""
        with suppress(OSError):
            (self.root / ".failed" / f"{stage.key}.json").unlink()

    def prepare(self) -> None:
        """Create the store if need be; :class:`StorageError` if it cannot be."""
        create_store(self.root)

    def _place(self, stage: Keyed) -> Path:
        return self.root / stage.kind / stage.key

    def _work(self, stage: Keyed) -> Path:
        return self.root / ".work" / stage.key

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
