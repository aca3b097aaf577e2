"""The requests made of one model, in order: a folder each, every one sealed by the next."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from expunge._errors import DataError, StorageError
from expunge.request.subject._weights import file_digest
from expunge.store._locks import Locked, file_lock

EVIDENCE, SEAL = "evidence.json", "evidence.sha256"
WEIGHTS, EXAMPLES, RECORDS = "weights.safetensors", "examples.csv", "forgotten.json"
_NUMBER = re.compile(r"\d{4,}")


@dataclass(frozen=True)
class Entry:
    """One finished request."""

    folder: Path
    number: int

    @cached_property
    def evidence(self) -> dict[str, Any]:
        """``evidence.json``."""
        path = self.folder / EVIDENCE
        try:
            found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DataError(f"{path} cannot be read: {error}. The ledger is damaged.") from error
        return found

    @property
    def digest(self) -> str:
        """The hash of ``evidence.json``, which the next request keeps."""
        return digest_of(self.folder / EVIDENCE)

    @property
    def achieved(self) -> bool:
        """Whether the data were forgotten."""
        return bool(self.evidence["verdict"]["status"] == "achieved")

    @property
    def indices(self) -> tuple[int, ...]:
        """The training records it was about."""
        path = self.folder / RECORDS
        try:
            return tuple(int(i) for i in json.loads(path.read_text(encoding="utf-8"))["indices"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} cannot be read: {error!r}. The ledger is damaged.") from error

    @property
    def asked(self) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The ids that were asked for, and the records they stood for, without copies."""
        path = self.folder / RECORDS
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            return tuple(map(str, found["ids"])), tuple(int(i) for i in found["asked"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} cannot be read: {error!r}. The ledger is damaged.") from error


@dataclass(frozen=True)
class Ledger:
    """All finished requests in a folder."""

    root: Path
    entries: tuple[Entry, ...] = field(default_factory=tuple)

    @classmethod
    def read(cls, root: Path) -> Ledger:
        """The ledger in ``root``; empty where there is none."""
        folders = sorted(p for p in root.glob("[0-9]*") if p.is_dir() and _NUMBER.fullmatch(p.name))
        entries = tuple(Entry(folder, int(folder.name)) for folder in folders)
        for position, entry in enumerate(entries, start=1):
            if entry.number != position:
                raise DataError(f"Request {position} is missing from the ledger in {root}.")
        return cls(root, entries)

    @property
    def last(self) -> Entry | None:
        """The latest request."""
        return self.entries[-1] if self.entries else None

    @property
    def weights(self) -> Path | None:
        """The weights to go on from: those of the latest request, whatever its verdict."""
        return None if self.last is None else self.last.folder / WEIGHTS

    @property
    def forgotten(self) -> dict[int, tuple[int, ...]]:
        """The records of every request so far, by its number."""
        return {entry.number: entry.indices for entry in self.entries}

    def broken_seals(self) -> list[str]:
        """What does not fit together: evidence changed after the next request was sealed."""
        found = []
        for before, after in zip(self.entries, self.entries[1:], strict=False):
            if after.evidence["request"]["previous"] != before.digest:
                found.append(
                    f"Request {before.number}: evidence.json is not the one that request "
                    f"{after.number} was made after."
                )
        return found


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    try:
        return file_digest(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def alone(root: Path) -> Iterator[None]:
    """Keep other requests off a folder while one is at work in it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        holder = file_lock(root / ".lock")
        holder.__enter__()
    except Locked as error:
        raise StorageError(
            f"Another request is at work in {root}. Wait for it to end, or choose another --out."
        ) from error
    except OSError as error:
        raise StorageError(f"Cannot write in {root}: {error.strerror}.") from error
    try:
        yield
    finally:
        holder.__exit__(None, None, None)
