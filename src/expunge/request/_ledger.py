"""The ledger: all requests made of one model, in order, each sealed by the next.

Every finished request has a folder, ``0001``, ``0002``, …; the next one starts from its weights
and keeps the hash of its evidence.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from expunge._errors import DataError, InvalidInput, StorageError
from expunge._files import file_digest
from expunge.request.evidence._schema import Evidence, read_evidence
from expunge.store._locks import Locked, file_lock

if TYPE_CHECKING:
    from expunge.request.subject._load import Subject

EVIDENCE, SEAL = "evidence.json", "evidence.sha256"
WEIGHTS, EXAMPLES, RECORDS = "weights.safetensors", "examples.csv", "forgotten.json"
_NUMBER = re.compile(r"\d{4,}")

Value = TypeVar("Value")


class BrokenSeal(NamedTuple):
    """A request that is not the one that the chain of requests knows, and why."""

    number: int
    problem: str


@dataclass(frozen=True)
class LedgerEntry:
    """One finished request."""

    folder: Path
    number: int

    @cached_property
    def evidence(self) -> Evidence:
        """The content of ``evidence.json``."""
        try:
            return read_evidence(self.folder / EVIDENCE)
        except DataError as error:
            raise DataError(f"{error} The ledger is damaged.") from error

    @property
    def digest(self) -> str:
        """The hash of ``evidence.json``, which the next request keeps."""
        return digest_of(self.folder / EVIDENCE)

    @property
    def head(self) -> str:
        """The hash of the seal, and so of every file of this request and of all before it."""
        return digest_of(self.folder / SEAL)

    @property
    def achieved(self) -> bool:
        """Whether the records were shown to be forgotten."""
        return self.evidence.achieved

    @property
    def unlearned(self) -> bool:
        """Whether its weights are those of the unlearned model."""
        return self.evidence.unlearned

    @property
    def indices(self) -> tuple[int, ...]:
        """The training records that were to be forgotten, including duplicates."""
        return self._read_list("indices", int)

    @property
    def requested_ids(self) -> tuple[str, ...]:
        """The ids that were asked for."""
        return self._read_list("ids", str)

    @property
    def requested_indices(self) -> tuple[int, ...]:
        """The training records that the ids stand for, without duplicates."""
        return self._read_list("asked", int)

    def _read_list(self, key: str, convert: Callable[[Any], Value]) -> tuple[Value, ...]:
        path = self.folder / RECORDS
        try:
            values = json.loads(path.read_text(encoding="utf-8"))[key]
            return tuple(convert(value) for value in values)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(f"{path} cannot be read: {error!r}. The ledger is damaged.") from error


@dataclass(frozen=True)
class Ledger:
    """All finished requests in a folder."""

    root: Path
    entries: tuple[LedgerEntry, ...] = field(default_factory=tuple)

    @classmethod
    def read(cls, root: Path) -> Ledger:
        """Read the ledger in ``root``; it is empty if there are no requests."""
        folders = sorted(p for p in root.glob("[0-9]*") if p.is_dir() and _NUMBER.fullmatch(p.name))
        entries = tuple(LedgerEntry(folder, int(folder.name)) for folder in folders)
        for position, entry in enumerate(entries, start=1):
            if entry.number != position:
                raise DataError(f"Request {position} is missing from the ledger in {root}.")
        return cls(root, entries)

    @classmethod
    def read_existing(cls, root: Path) -> Ledger:
        """Read the ledger in ``root``, which should have a request."""
        ledger = cls.read(root)
        if not ledger.entries:
            raise DataError(f"There are no requests in {root}.")
        return ledger

    @property
    def last(self) -> LedgerEntry | None:
        """The latest request."""
        return self.entries[-1] if self.entries else None

    @property
    def weights(self) -> Path | None:
        """The weights that the next request starts from: the latest, whatever its verdict."""
        return None if self.last is None else self.last.folder / WEIGHTS

    @property
    def forgotten(self) -> dict[int, tuple[int, ...]]:
        """The records of every request so far, by its number."""
        return {entry.number: entry.indices for entry in self.entries}

    @property
    def head(self) -> str:
        """The hash of the latest request's seal, to be noted elsewhere; empty if there is none."""
        try:
            return "" if self.last is None else self.last.head
        except DataError:
            return "not readable"

    def position_of(self, head: str) -> int | None:
        """The number of the request whose seal, or ``evidence.json``, has the hash ``head``."""
        return next((e.number for e in self.entries if head in (e.head, e.digest)), None)

    def broken_seals(self) -> list[BrokenSeal]:
        """Requests that are not where they were made, or were changed after the next was made.

        Evidence that cannot be read is left out.
        """
        broken = [BrokenSeal(n, problem) for n, problem in map(_misplaced, self.entries) if problem]
        for before, after in zip(self.entries, self.entries[1:], strict=False):
            try:
                request = after.evidence.request
                changed = [EVIDENCE] if request.previous != before.digest else []
                # Requests of earlier versions keep the hash of the evidence alone.
                if request.previous_seal not in (None, before.head):
                    changed.append(SEAL)
            except DataError:
                continue
            broken += [
                BrokenSeal(
                    before.number,
                    f"Request {before.number}: {name} is not the one that request {after.number} "
                    "was made after.",
                )
                for name in changed
            ]
        return broken

    def latest_state_of(self, subject: Subject) -> Subject:
        """The subject with the weights that the latest request left behind.

        Refuses data that have changed since, and weights that these requests did not start with.
        """
        if self.last is None or self.weights is None:
            return subject
        hashes = self.last.evidence.hashes
        if subject.data_digest != hashes.data:
            raise DataError(
                f"The data have changed since request {self.last.number} in {self.root}: their "
                "hash differs. A sequence of requests needs the same data; for other data, choose "
                "another --out."
            )
        first_digest = self.entries[0].evidence.hashes.weights_before
        latest_digest = digest_of(self.weights)
        if latest_digest != hashes.weights_after:
            raise DataError(
                f"{self.weights} was changed after request {self.last.number} wrote it."
            )
        if subject.weights_digest not in (first_digest, latest_digest):
            raise InvalidInput(
                f"The requests in {self.root} started with other weights. Give the same --weights, "
                "or choose another --out for another model."
            )
        return subject.with_weights(self.weights)

    def still_to_forget(self, requested: Sequence[int]) -> tuple[list[int], set[int]]:
        """The records to forget now, and those of earlier requests, which are out of retain.

        Records of an earlier request that was not achieved, or of which that cannot be told, can
        be requested again.
        """
        done = {i for entry in self.entries if entry.achieved for i in entry.indices}
        to_forget = [i for i in requested if i not in done]
        if not to_forget:
            raise InvalidInput(
                f"All {len(requested)} records were forgotten before. There is nothing new to "
                "forget."
            )
        earlier = {i for indices in self.forgotten.values() for i in indices}
        return to_forget, earlier - set(to_forget)


def _misplaced(entry: LedgerEntry) -> tuple[int, str]:
    """The number of an entry, and how it stands in the wrong place; empty if it does not."""
    try:
        request = entry.evidence.request
    except DataError:
        return entry.number, ""
    if request.number != entry.number:
        return entry.number, (
            f"Request {entry.number}: its evidence is that of request {request.number}."
        )
    if entry.number == 1 and (request.previous or request.previous_seal):
        return entry.number, "Request 1: it was made after another one, which is gone."
    return entry.number, ""


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    try:
        return file_digest(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def digest_config(config: Mapping[str, Any], *others: str) -> str:
    """The SHA-256 of a request's configuration, and of ``others`` that go with it."""
    text = json.dumps(config, sort_keys=True, default=str) + "/".join(others)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def exclusive_access(root: Path) -> Iterator[None]:
    """Keep other requests out of a folder while one is at work in it."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        lock = file_lock(root / ".lock")
        lock.__enter__()
    except Locked as error:
        raise StorageError(
            f"Another request is at work in {root}. Wait for it to end, or choose another --out."
        ) from error
    except OSError as error:
        raise StorageError(f"Cannot write in {root}: {error.strerror}.") from error
    try:
        yield
    finally:
        lock.__exit__(None, None, None)
