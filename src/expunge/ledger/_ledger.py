"""The ledger: all requests made of one model, in order, each sealed by the next.

Every finished request has a folder, ``0001``, ``0002``, …; the next one starts from its weights
and keeps the hash of its evidence.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pydantic

from expunge._errors import DataError, InvalidInput, StorageError
from expunge._files import file_digest, is_there
from expunge._strict_json import read_json
from expunge.evidence import Evidence, read_evidence
from expunge.ledger._id_key import ForgottenRecords, HashedRecords, IdKey
from expunge.store import Locked, file_lock

if TYPE_CHECKING:
    from expunge.request import Subject

EVIDENCE, SEAL = "evidence.json", "evidence.sha256"
WEIGHTS, RECORDS = "weights.safetensors", "forgotten.json"
PURGED = "purged.json"
"""Beside the bundles: what was removed from them."""
_NUMBER = re.compile(r"[0-9]{4,}")


class BrokenSeal(NamedTuple):
    """A request that is not the one that the chain of requests knows, and why."""

    number: int
    problem: str


@dataclass(frozen=True)
class LedgerEntry:
    """One finished request."""

    folder: Path
    number: int
    index_of: Mapping[str, int] | None = field(default=None, repr=False, compare=False)
    """The training record that each keyed hash stands for: see :meth:`Ledger.unlocked`."""
    unseen_index_of: Mapping[str, tuple[str, int]] = field(
        default_factory=dict, repr=False, compare=False
    )
    """The split and index of the record of val or test that each keyed hash stands for."""

    @cached_property
    def evidence(self) -> Evidence:
        """The content of ``evidence.json``."""
        try:
            return read_evidence(self.folder / EVIDENCE)
        except DataError as error:
            raise DataError(f"{error} The ledger is damaged.") from error

    @property
    def digest(self) -> str:
        """The hash of ``evidence.json``: the fingerprint that the letter has."""
        return digest_of(self.folder / EVIDENCE)

    @cached_property
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

    @cached_property
    def indices(self) -> tuple[int, ...]:
        """The training records that were to be forgotten, including duplicates.

        They are written as keyed hashes, so that only an unlocked ledger knows them.
        """
        return self._indices_of(self.records.records)

    @property
    def asked(self) -> tuple[int, ...]:
        """The training records that were asked for, without duplicates."""
        return self._indices_of(self.records.asked)

    def _indices_of(self, records: Sequence[str]) -> tuple[int, ...]:
        if self.index_of is None:
            raise DataError(
                f"The records of request {self.number} are written as keyed hashes. Give the key "
                "that it was made with: --id-key FILE."
            )
        try:
            return tuple(sorted(self.index_of[record] for record in records))
        except KeyError as error:
            raise DataError(
                f"{self.folder / RECORDS} names a record that is not in the training data: {error}."
            ) from error

    @property
    def unseen(self) -> dict[str, tuple[int, ...]]:
        """Records of val and test that nothing was compared with, as they are a requester's own."""
        try:
            found = [self.unseen_index_of[record] for record in self.records.unseen]
        except KeyError as error:
            raise DataError(
                f"{self.folder / RECORDS} names a record that is not in val or test: {error}."
            ) from error
        return {
            split: tuple(sorted(index for name, index in found if name == split))
            for split in ("val", "test")
        }

    @property
    def requested(self) -> HashedRecords:
        """Keyed hashes of the ids that were asked for, and of their records without duplicates."""
        return HashedRecords(tuple(self.records.ids), tuple(self.records.asked))

    @cached_property
    def records(self) -> ForgottenRecords:
        """The content of ``forgotten.json``."""
        path = self.folder / RECORDS
        try:
            return ForgottenRecords.model_validate(read_json(path))
        except FileNotFoundError as error:
            raise DataError(f"{path} is missing. The ledger is damaged.") from error
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the file"
            raise DataError(
                f"{path} cannot be read: {where}: {first['msg']}. The ledger is damaged."
            ) from error


@dataclass(frozen=True)
class Ledger:
    """All finished requests in a folder."""

    root: Path
    entries: tuple[LedgerEntry, ...] = field(default_factory=tuple)

    @classmethod
    def read(cls, root: Path) -> Ledger:
        """Read the ledger in ``root``; it is empty if there are no requests."""
        found = root.iterdir() if is_there(root) and root.is_dir() else ()
        folders = {int(p.name): p for p in found if _NUMBER.fullmatch(p.name) and p.is_dir()}
        entries = tuple(LedgerEntry(folders[number], number) for number in sorted(folders))
        for position, entry in enumerate(entries, start=1):
            if entry.folder.name != f"{position:04d}":
                raise DataError(f"Request {position} is missing from the ledger in {root}.")
        return cls(root, entries)

    @classmethod
    def read_existing(cls, root: Path) -> Ledger:
        """Read the ledger in ``root``, which should have a request."""
        ledger = cls.read(root)
        if not ledger.entries:
            raise DataError(f"There are no requests in {root}.")
        return ledger

    def unlocked(self, key: IdKey, records: int, **unseen: int) -> Ledger:
        """The same ledger, with the records that its keyed hashes stand for.

        There are ``records`` training records, and ``unseen`` ones in val and test; the hash of
        each is compared. A key that a request was not made with is refused.
        """
        for entry in self.entries:
            if entry.records.key != key.fingerprint:
                raise InvalidInput(
                    f"Request {entry.number} in {self.root} was made with another id key than "
                    f"{key.path}, so that nobody knows which records are forgotten. Give the "
                    "key it was made with: --id-key FILE."
                )
        index_of = {key.hash_record(index): index for index in range(records)}
        unseen_index_of = {
            key.hash_record(index, split): (split, index)
            for split, size in unseen.items()
            for index in range(size)
        }
        entries = tuple(
            replace(entry, index_of=index_of, unseen_index_of=unseen_index_of)
            for entry in self.entries
        )
        return Ledger(self.root, entries)

    def find(self, entry: str, key: IdKey) -> list[LedgerEntry]:
        """The requests that name an id."""
        hashed = key.hash_id(entry)
        return [each for each in self.unlocked(key, 0).entries if hashed in each.requested.ids]

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
        """The number of the request whose seal has the hash ``head``."""
        return next((entry.number for entry in self.entries if entry.head == head), None)

    def broken_seals(self) -> list[BrokenSeal]:
        """Requests that are not where they were made, or were changed after the next was made.

        Evidence that cannot be read is left out.
        """
        broken = [BrokenSeal(n, problem) for n, problem in map(_misplaced, self.entries) if problem]
        for before, after in zip(self.entries, self.entries[1:], strict=False):
            try:
                if after.evidence.request.previous != before.head:
                    problem = f"{SEAL} is not the one that request {after.number} was made after."
                    broken.append(BrokenSeal(before.number, f"Request {before.number}: {problem}"))
                if after.evidence.request.ledger != before.evidence.request.ledger:
                    problem = "it belongs to another ledger than the one before."
                    broken.append(BrokenSeal(after.number, f"Request {after.number}: {problem}"))
            except DataError:
                continue
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
        latest_digest = weights_digest(self.weights)
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

        Records of an earlier request that was not achieved, or is inconclusive, can
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
        request, hashes = entry.evidence.request, entry.evidence.hashes
    except DataError:
        return entry.number, ""
    if request.number != entry.number:
        return entry.number, (
            f"Request {entry.number}: its evidence is that of request {request.number}."
        )
    if entry.number == 1 and request.previous:
        return entry.number, "Request 1: it was made after another one, which is gone."
    first = entry.number == 1 and request.ledger.model != hashes.weights_before
    if first or request.ledger.data != hashes.data:
        what = "weights" if first else "data"
        return entry.number, f"Request {entry.number}: its {what} are not those of its ledger."
    return entry.number, ""


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    try:
        return file_digest(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from error


def weights_digest(path: Path) -> str:
    """The SHA-256 of the values of weights: names, types, shapes and bytes, whatever the file."""
    from expunge import _tensors as tensors

    return tensors.state_digest(tensors.load(path)[0])


def digest_config(config: Mapping[str, Any], *others: str) -> str:
    """The SHA-256 of a request's configuration, and of ``others`` that go with it."""
    text = json.dumps(config, sort_keys=True, default=str) + "/".join(others)
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def exclusive_access(root: Path) -> Iterator[None]:
    """Keep other requests out of a folder while one is at work in it.

    The folder is created for that; if nothing was put into it, it is removed again.
    """
    try:
        created = [folder for folder in (root, *root.parents) if not folder.exists()]
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
        with suppress(OSError):  # something is in it
            for folder in created:
                folder.rmdir()
