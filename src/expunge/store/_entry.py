"""A finished result in the store."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expunge._errors import DataError
from expunge.store._canonical import canonical, key_of
from expunge.store._manifest import Manifest

STAGE, ENVIRONMENT = "config.json", "environment.json"


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
        """``environment.json``: versions, hardware, wall time, when."""
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
        """What the stage was called when it ran."""
        return str(self.notes["title"])

    @property
    def seconds(self) -> float:
        """Wall time of the attempt that finished."""
        return float(self.environment["seconds"])

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the result's own files."""
        return tuple(name for name in self.manifest.files if name not in (STAGE, ENVIRONMENT))

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(size for _, size in self.manifest.files.values())

    def path(self, name: str) -> Path:
        """A file of the result."""
        if name not in self.manifest.files:
            known = ", ".join(self.files) or "none"
            raise DataError(f"The result {self.folder} has no file {name!r}. (it has: {known})")
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
                f"{self.folder / STAGE} describes another stage than its folder's name."
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
