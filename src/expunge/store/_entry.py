"""A finished result in the store, and the manifest that shows whether it is intact."""

from __future__ import annotations

import functools
import hashlib
import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expunge._errors import DataError, InvalidInput
from expunge._files import file_digest
from expunge._strict_json import read_json
from expunge.store._stage import canonical, dumps, key_of

STAGE, ENVIRONMENT, MANIFEST = "config.json", "environment.json", "manifest.json"
RESERVED = (STAGE, ENVIRONMENT, MANIFEST)
"""Names of the files that the store adds to a result."""


@dataclass(frozen=True)
class Entry:
    """A result: its folder, its files, and the notes kept with them."""

    folder: Path
    kind: str
    key: str

    @functools.cached_property
    def notes(self) -> dict[str, Any]:
        """``config.json``: kind, version, config, parents, title, run."""
        return _read_object(self.folder / STAGE)

    @functools.cached_property
    def environment(self) -> dict[str, Any]:
        """``environment.json``: versions, hardware, wall time, dates."""
        return _read_object(self.folder / ENVIRONMENT)

    @functools.cached_property
    def manifest(self) -> dict[str, tuple[str, int]]:
        """``manifest.json``: sha256 and size of each file, by name."""
        path = self.folder / MANIFEST
        notes = _read_object(path)
        try:
            files = notes["files"]
            manifest = {name: (item["sha256"], int(item["size"])) for name, item in files.items()}
            intact = notes["sha256"] == _digest_of(files)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is damaged: {error!r}.") from error
        if not intact:
            raise DataError(f"{path} has been changed since it was written.")
        return manifest

    @property
    def config(self) -> dict[str, Any]:
        """The stage's configuration, in its canonical spelling."""
        config: dict[str, Any] = self.notes["config"]
        return config

    @property
    def seconds(self) -> float:
        """Wall time of the attempt that finished."""
        return float(self.environment["seconds"])

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that the stage wrote."""
        return tuple(name for name in self.manifest if name not in RESERVED)

    def path(self, name: str) -> Path:
        """The path of one file of the result."""
        if name not in self.manifest:
            names = ", ".join(self.files) or "none"
            raise DataError(f"The result {self.folder} has no file {name!r}. (it has: {names})")
        return self.folder / name

    def verify(self) -> Entry:
        """Check every byte against the manifest, and the notes against the key."""
        for name, expected in self.manifest.items():
            _check_file(self.folder / name, *expected)
        try:
            notes = self.notes
            parents = [parent["key"] for parent in notes["parents"]]
            key = key_of(notes["kind"], notes["version"], canonical(notes["config"]), parents)
        except (KeyError, TypeError) as error:
            raise DataError(f"{self.folder / STAGE} is damaged: {error!r}.") from error
        if (notes["kind"], key) != (self.kind, self.key):
            raise DataError(
                f"{self.folder / STAGE} describes a different stage than its folder's name."
            )
        return self


def manifest_text(folder: Path) -> str:
    """The text of ``manifest.json``, with its own digest, for the files that are not hidden."""
    files = {}
    for path in tree(folder):
        if path.is_file():
            measured = {"sha256": file_digest(path), "size": path.stat().st_size}
            files[path.relative_to(folder).as_posix()] = measured
    return json.dumps({"files": files, "sha256": _digest_of(files)})


def tree(folder: Path) -> Iterator[Path]:
    """Every file and folder below ``folder`` that is not hidden; links and the like are refused."""
    for path in sorted(folder.iterdir()):
        mode = path.lstat().st_mode
        if path.name.startswith("."):
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise InvalidInput(f"A result is made of plain files, and {path} is not one.")
        yield path
        if stat.S_ISDIR(mode):
            yield from tree(path)


def _check_file(path: Path, digest: str, size: int) -> None:
    """Raise unless a file has this hash and size."""
    try:
        found = path.stat().st_size
        if found != size:
            raise DataError(f"{path} has {found} bytes, not the {size} written.")
        if file_digest(path) != digest:
            raise DataError(f"{path} has been changed since it was written: its hash differs.")
    except FileNotFoundError:
        raise DataError(f"{path} is missing.") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def _read_object(path: Path) -> dict[str, Any]:
    try:
        notes = read_json(path)
    except FileNotFoundError:
        raise DataError(f"{path} is missing.") from None
    if not isinstance(notes, dict):
        raise DataError(f"{path} is damaged: it should hold an object.")
    return notes


def _digest_of(files: Any) -> str:
    return hashlib.sha256(dumps(files).encode()).hexdigest()
