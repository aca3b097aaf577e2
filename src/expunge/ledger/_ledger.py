"""The ledger: all requests made of one model, in order, each sealed by the next.

Every finished request has a folder, ``0001``, ``0002``, …; the next one starts from its weights
and keeps the hash of its seal, ``evidence.sha256``.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expunge._errors import DataError, InvalidInput, StorageError
from expunge._files import file_digest, is_there
from expunge._strict_json import read_model
from expunge.evidence import DerivedModel, EarlierAttempt, Evidence, read_evidence
from expunge.ledger._id_key import ForgottenRecords, IdKey
from expunge.store import Locked, file_lock

if TYPE_CHECKING:
    from expunge.request import ModelAndData

EVIDENCE, SEAL = "evidence.json", "evidence.sha256"
WEIGHTS, FORGOTTEN = "weights.safetensors", "forgotten.json"
PURGED = "purged.json"
"""Beside the bundles: what was removed from them."""
_NUMBER = re.compile(r"[0-9]{4,}")


@dataclass(frozen=True)
class LedgerEntry:
    """One finished request."""

    folder: Path
    number: int
    place_of: Mapping[str, tuple[str, int]] | None = field(default=None, repr=False, compare=False)
    """The split and index of the record that each keyed hash stands for: see
    :meth:`Ledger.unlocked`."""

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

    @cached_property
    def forgotten_indices(self) -> tuple[int, ...]:
        """The training records that were to be forgotten, including duplicates.

        They are written as keyed hashes, so only an unlocked ledger knows them.
        """
        return self._find(self.forgotten.records, "train")["train"]

    @property
    def asked(self) -> tuple[int, ...]:
        """The training records that were asked for, without duplicates."""
        return self._find(self.forgotten.asked, "train")["train"]

    @property
    def left_out(self) -> dict[str, tuple[int, ...]]:
        """Records of val and test that nothing was compared with, as they are a requester's own."""
        return self._find(self.forgotten.left_out, "val", "test")

    def _find(self, hashes: Sequence[str], *splits: str) -> dict[str, tuple[int, ...]]:
        """The indices of the records that ``hashes`` stand for, all of which are in ``splits``."""
        if self.place_of is None:
            raise DataError(
                f"The records of request {self.number} are written as keyed hashes. Give the key "
                "that it was made with: --id-key FILE."
            )
        places = [self.place_of.get(each) for each in hashes]
        if any(place is None or place[0] not in splits for place in places):
            raise DataError(
                f"{self.folder / FORGOTTEN} names a record that is not in {' or '.join(splits)}."
            )
        return {
            split: tuple(sorted(place[1] for place in places if place and place[0] == split))
            for split in splits
        }

    @cached_property
    def forgotten(self) -> ForgottenRecords:
        """The content of ``forgotten.json``."""
        path = self.folder / FORGOTTEN
        try:
            return read_model(path, ForgottenRecords)
        except FileNotFoundError as error:
            raise DataError(f"{path} is missing. The ledger is damaged.") from error
        except DataError as error:
            raise DataError(f"{error} The ledger is damaged.") from error


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
            missing = "" if is_there(root) else ": there is no such folder. Check the path"
            raise DataError(f"There are no requests in {root}{missing}.")
        return ledger

    def unlocked(self, key: IdKey, records: int, **others: int) -> Ledger:
        """The same ledger, with the records that its keyed hashes stand for.

        There are ``records`` training records, and ``others`` in val and test; the hash of
        each is compared. A key that a request was not made with is refused.
        """
        self._require_same_key(key)
        place_of = {
            key.hash_record(index, split): (split, index)
            for split, size in {"train": records, **others}.items()
            for index in range(size)
        }
        return Ledger(self.root, tuple(replace(entry, place_of=place_of) for entry in self.entries))

    def find(self, entry: str, key: IdKey) -> list[LedgerEntry]:
        """The requests that name an id."""
        self._require_same_key(key)
        hashed = key.hash_id(entry)
        return [each for each in self.entries if hashed in each.forgotten.ids]

    def _require_same_key(self, key: IdKey) -> None:
        for entry in self.entries:
            if entry.forgotten.key != key.fingerprint:
                raise InvalidInput(
                    f"Request {entry.number} in {self.root} was made with another id key than "
                    f"{key.path}, so nobody knows which records are forgotten. Give the "
                    "key it was made with: --id-key FILE."
                )

    @property
    def last(self) -> LedgerEntry | None:
        """The latest request."""
        return self.entries[-1] if self.entries else None

    @property
    def weights(self) -> Path | None:
        """The weights that the next request starts from: the latest, whatever its verdict."""
        return None if self.last is None else self.last.folder / WEIGHTS

    @property
    def head(self) -> str:
        """The hash of the latest request's seal, to be noted elsewhere; empty if there is none."""
        try:
            return "" if self.last is None else self.last.head
        except DataError:
            return "not readable"

    def broken_seals(self) -> list[tuple[int, str]]:
        """Requests that are not where they were made, or were changed after the next was made.

        Each by its number, with a sentence. Evidence that cannot be read is left out.
        """
        broken: list[tuple[int, str]] = []
        for before, entry in zip((None, *self.entries), self.entries, strict=False):
            with suppress(DataError):
                for number, problem in _entry_problems(before, entry):
                    broken.append((number, f"Request {number}: {problem}"))
        return broken

    def latest_state_of(self, loaded: ModelAndData) -> ModelAndData:
        """The model and data with the weights that the latest request left behind.

        Refuses data that have changed since, and weights that these requests did not start with.
        """
        if self.last is None or self.weights is None:
            return loaded
        hashes = self.last.evidence.hashes
        if loaded.data_digest != hashes.data:
            raise DataError(
                f"The data have changed since request {self.last.number} in {self.root}: their "
                "hash differs. A sequence of requests needs the same data; for other data, choose "
                "another --out."
            )
        first_digest = self.entries[0].evidence.hashes.weights_before
        if loaded.weights_digest not in (first_digest, hashes.weights_after):
            raise InvalidInput(
                f"The requests in {self.root} started with other weights. Give the same --weights, "
                "or choose another --out for another model."
            )
        latest = loaded.with_weights(self.weights)
        if latest.weights_digest != hashes.weights_after:
            raise DataError(
                f"{self.weights} was changed after request {self.last.number} wrote it."
            )
        return latest

    def attempts_on(self, records: Collection[str]) -> list[EarlierAttempt]:
        """The requests that were about any of these ``records``, which are keyed hashes.

        A verdict that was reached at the third seed means less than one reached at the first.
        """
        found = [
            EarlierAttempt(
                when=entry.evidence.request.when,
                seed=entry.evidence.seed,
                status=entry.evidence.status,
                request=entry.number,
                shared=len({*records} & {*entry.forgotten.asked}),
            )
            for entry in self.entries
        ]
        return [attempt for attempt in found if attempt.shared]

    def discarded_by(self, weights: str) -> int | None:
        """The request that judged and discarded the model with this hash of weights, if any."""
        hashes = ((entry.number, entry.evidence.hashes.discarded) for entry in self.entries)
        return next((number for number, discarded in hashes if discarded == weights), None)

    def open_models(self) -> list[tuple[int, DerivedModel]]:
        """Models made from this one that are open, each by the latest request that lists it."""
        latest = {
            each.name: (entry.number, each)
            for entry in self.entries
            for each in entry.evidence.derived
        }
        return [pair for pair in latest.values() if pair[1].status == "open"]

    def still_to_forget(self, requested: Sequence[int]) -> tuple[list[int], set[int]]:
        """The records to forget now, and those of earlier requests, which are out of retain.

        Records of an earlier request that was not achieved, or is inconclusive, can be requested
        again.
        """
        done = {i for e in self.entries if e.evidence.achieved for i in e.forgotten_indices}
        to_forget = [i for i in requested if i not in done]
        if not to_forget:
            raise InvalidInput(
                f"All {len(requested)} records were forgotten before. There is nothing new to "
                "forget."
            )
        earlier = {i for entry in self.entries for i in entry.forgotten_indices}
        return to_forget, earlier - set(to_forget)


def _entry_problems(before: LedgerEntry | None, entry: LedgerEntry) -> Iterator[tuple[int, str]]:
    """What is wrong with an entry, or with the one before it, and the number of that one."""
    request, hashes = entry.evidence.request, entry.evidence.hashes
    if request.number != entry.number:
        yield entry.number, f"its evidence is that of request {request.number}."
    elif before is None and request.previous:
        yield entry.number, "it was made after another one, which is gone."
    elif before is None and request.ledger.model != hashes.weights_before:
        yield entry.number, "its weights are not those of its ledger."
    elif request.ledger.data != hashes.data:
        yield entry.number, "its data are not those of its ledger."
    if before is not None:
        if request.previous != before.head:
            after = f"request {entry.number} was made after"
            yield before.number, f"{SEAL} is not the one that {after}."
        if request.ledger != before.evidence.request.ledger:
            yield entry.number, "it belongs to another ledger than the one before."
        if hashes.weights_before != before.evidence.hashes.weights_after:
            yield entry.number, f"it did not start with the weights of request {before.number}."


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
    """Keep other requests out of a folder while one is at work in it.

    The folder is created for that; if nothing was put into it, it is removed again.
    """
    with ExitStack() as stack:
        try:
            created = [folder for folder in (root, *root.parents) if not folder.exists()]
            root.mkdir(parents=True, exist_ok=True)
            stack.callback(_remove_empty, created)
            stack.enter_context(file_lock(root / ".lock"))
        except Locked as error:
            raise StorageError(
                f"Another request is at work in {root}. Wait for it to end, or choose another "
                "--out."
            ) from error
        except OSError as error:
            raise StorageError(f"Cannot write in {root}: {error.strerror}.") from error
        yield


def _remove_empty(folders: Sequence[Path]) -> None:
    with suppress(OSError):  # something is in it
        for folder in folders:
            folder.rmdir()
