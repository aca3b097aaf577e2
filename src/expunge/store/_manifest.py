"""The sha256 and size of every file of a result."""

from __future__ import annotations

import hashlib
import json
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from expunge._errors import DataError, InvalidInput
from expunge.store._canonical import dumps

NAME = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """Digest and size by file name; names use forward slashes on every system."""

    files: dict[str, tuple[str, int]]

    @classmethod
    def of(cls, folder: Path) -> Manifest:
        """Read every file of ``folder`` that is not hidden."""
        files = [path for path in tree(folder) if path.is_file()]
        return cls({path.relative_to(folder).as_posix(): _measure(path) for path in files})

    def dumps(self) -> str:
        """The text of ``manifest.json``, which carries a digest of itself."""
        files = {name: {"sha256": sha, "size": size} for name, (sha, size) in self.files.items()}
        return json.dumps({"files": files, "sha256": _own(files)})

    @classmethod
    def load(cls, folder: Path) -> Manifest:
        """Read ``manifest.json``; a damaged one is refused."""
        path = folder / NAME
        try:
            notes: Any = json.loads(path.read_text(encoding="utf-8"))
            files = notes["files"]
            intact = notes["sha256"] == _own(files)
            read = {name: (item["sha256"], int(item["size"])) for name, item in files.items()}
        except FileNotFoundError:
            raise DataError(f"{path} is missing.") from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{path} is damaged: {error!r}.") from error
        if not intact:
            raise DataError(f"{path} has been changed since it was written.")
        return cls(read)

    def verify(self, folder: Path) -> None:
        """Raise :class:`DataError`, naming the file, unless all are there and unchanged."""
        for name, expected in self.files.items():
            path = folder / name
            try:
                size = path.stat().st_size
                found = _measure(path) if size == expected[1] else ("", size)
            except FileNotFoundError:
                raise DataError(f"{path} is missing.") from None
            except OSError as error:
                raise DataError(f"{path} cannot be read: {error.strerror}.") from error
            if found[1] != expected[1]:
                raise DataError(f"{path} has {size} bytes, not the {expected[1]} written.")
            if found != expected:
                raise DataError(f"{path} has been changed since it was written: its hash differs.")


def tree(folder: Path) -> Iterator[Path]:
    """All files and folders below ``folder`` but hidden ones; links and the like are refused."""
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


def _own(files: Any) -> str:
    return hashlib.sha256(dumps(files).encode()).hexdigest()
