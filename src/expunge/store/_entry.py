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
        return self._json(STAGE)

    @functools.cached_property
    def environment(self) -> dict[str, Any]:
        """``environment.json``: versions, hardware, wall time, dates."""
        return self._json(ENVIRONMENT)

    @functools.cached_property
    def manifest(self) -> Manifest:
        """Digest and size of each file."""
        return Manifest.load(self.folder)

    @property
    def config(self) -> dict[str, Any]:
        """The stage's configuration, in its canonical spelling."""
        config: dict[str, Any] = self.notes["config"]
        return config

    @property
    def title(self) -> str:
        """The title of the stage when it ran."""
        return str(self.notes["title"])

    @property
    def seconds(self) -> float:
        """Wall time of the attempt that finished."""
        return float(self.environment["seconds"])

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files that the stage wrote."""
        return tuple(name for name in self.manifest.files if name not in RESERVED)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(size for _, size in self.manifest.files.values())

    def path(self, name: str) -> Path:
        """The path of one file of the result."""
        if name not in self.manifest.files:
            names = ", ".join(self.files) or "none"
            raise DataError(f"The result {self.folder} has no file {name!r}. (it has: {names})")
        return self.folder / name

    def verify(self) -> Entry:
        """Check every byte against the manifest, and the notes against the key."""
        self.manifest.verify(self.folder)
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

    def _json(self, name: str) -> dict[str, Any]:
        path = self.folder / name
        try:
            notes = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise DataError(f"{path} is missing.") from None
        except (OSError, ValueError) as error:
            raise DataError(f"{path} is damaged: {error}.") from error
        if not isinstance(notes, dict):
            raise DataError(f"{path} is damaged: it should hold an object.")
        return notes


@dataclass(frozen=True)
class Manifest:
    """sha256 and size of each file, by name; names use forward slashes on every system."""

    files: dict[str, tuple[str, int]]

    @classmethod
    def of(cls, folder: Path) -> Manifest:
        """Measure every file of ``folder`` that is not hidden."""
        files = [path for path in tree(folder) if path.is_file()]
        return cls({path.relative_to(folder).as_posix(): _measure(path) for path in files})

    def dumps(self) -> str:
        """The text of ``manifest.json``, which contains a digest of itself."""
        files = {name: {"sha256": sha, "size": size} for name, (sha, size) in self.files.items()}
        return json.dumps({"files": files, "sha256": _manifest_digest(files)})

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read ``manifest.json``; raise :class:`DataError` if it is damaged."""
        path = folder / MANIFEST
        try:
            notes: Any = json.loads(path.read_text(encoding="utf-8"))
            files = notes["files"]
            intact = notes["sha256"] == _manifest_digest(files)
            parsed = {name: (item["sha256"], int(item["size"])) for name, item in files.items()}
        except FileNotFoundError:
            raise DataError(f"{path} is missing.") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is damaged: {error!r}.") from error
        if not intact:
            raise DataError(f"{path} has been changed since it was written.")
        return cls(parsed)

    def verify(self, folder: Path) -> None:
        """Raise :class:`DataError`, naming the file, unless all are there and unchanged."""
        for name, expected in self.files.items():
            path = folder / name
            try:
                size = path.stat().st_size
                actual = _measure(path) if size == expected[1] else ("", size)
            except FileNotFoundError:
                raise DataError(f"{path} is missing.") from None
            except OSError as error:
                raise DataError(f"{path} cannot be read: {error.strerror}.") from error
            if actual[1] != expected[1]:
                raise DataError(f"{path} has {size} bytes, not the {expected[1]} written.")
            if actual != expected:
                raise DataError(f"{path} has been changed since it was written: its hash differs.")


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


def _measure(path: Path) -> tuple[str, int]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        return digest, file.tell()


def _manifest_digest(files: Any) -> str:
    return hashlib.sha256(dumps(files).encode()).hexdigest()
