"""Purge requests: remove what still remembers forgotten records, and keep the proof that it was.

What remembers: weights from before the latest request, attempts that were discarded, checkpoints,
kept examples, and what audits with shadow models left in their store. The hash of every removed
file is kept in ``purged.json`` beside the requests.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pydantic

from expunge._errors import DataError, InvalidInput
from expunge._files import file_digest, is_there, storage_errors, write_text
from expunge._strict_json import read_json
from expunge.ledger._ledger import PURGED, WEIGHTS, Ledger, LedgerEntry, exclusive_access
from expunge.ledger._seal import ATTEMPT, PAGE, THUMBNAILS
from expunge.ledger._signatures import HEAD, sign_head
from expunge.ledger._signing_keys import SigningKey
from expunge.store import Locked, Ref, Store, file_lock, now

SHEET, TABLE = "exposed-forget.png", "exposure.csv"
"""Files of an audit's report that may show forgotten examples."""
SHADOW = "shadow-train"
"""The kind of store entries that hold models trained on records that are to be forgotten."""


@dataclass(frozen=True)
class Remnant:
    """A file or folder that still remembers forgotten records, and why."""

    path: Path
    why: str
    request: int | None = None
    """The request that it belongs to, if it is part of a bundle."""

    @property
    def files(self) -> list[Path]:
        """The file itself, or all files below the folder."""
        if self.path.is_dir():
            return sorted(path for path in self.path.rglob("*") if path.is_file())
        return [self.path]

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.files)


class PurgedFile(pydantic.BaseModel):
    """A file that was removed: relative to the requests, or absolute if it was elsewhere."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    file: str
    sha256: str
    size: int
    why: str
    when: str


class _PurgedList(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")

    files: list[PurgedFile]


def find_remnants(
    ledger: Ledger, store: Path | None = None, audits: Sequence[Path] = ()
) -> list[Remnant]:
    """What still remembers: in the requests, in the ``store`` of audits, and in their reports."""
    root = ledger.root
    found = [remnant for entry in ledger.entries for remnant in _in_bundle(ledger, entry)]
    if (root / ".work").is_dir():
        found.append(Remnant(root / ".work", "checkpoint of a request that is not finished"))
    found += [Remnant(path, "left by a run that was killed") for path in _abandoned(root)]
    found += [] if store is None else find_in_store(store)
    return [*found, *(remnant for folder in audits for remnant in _in_audit(folder))]


def outside_of(ledger: Ledger) -> list[str]:
    """What is known to remember and is not purged, in sentences."""
    first, last = ledger.entries[0].evidence, ledger.entries[-1].evidence
    words = []
    weights = Path(str(first.config.get("weights", "")))
    if not first.in_memory and weights.is_file():
        words.append(f"{weights}, the weights from before the first request.")
    if not last.unlearned:
        words.append(
            f"{ledger.weights}, the latest weights: the last request was not achieved, so they "
            "remember its records."
        )
    return words


def _in_bundle(ledger: Ledger, entry: LedgerEntry) -> Iterator[Remnant]:
    names = {ATTEMPT: "model of a run that was discarded"}
    if entry is not ledger.entries[-1]:
        names[WEIGHTS] = "weights from before a later request"
    if entry.evidence.keep_examples:
        names |= dict.fromkeys((THUMBNAILS, PAGE), "images and labels of forgotten records")
    for name, why in names.items():
        if (entry.folder / name).is_file():
            yield Remnant(entry.folder / name, why, entry.number)


def _abandoned(root: Path) -> list[Path]:
    return sorted([*root.glob(".[0-9]*.new"), *root.glob(".*.tmp")])


def _in_audit(folder: Path) -> Iterator[Remnant]:
    """What the report of an audit shows of forgotten examples: only with ``--keep-examples``."""
    if not (folder / "report.json").is_file():
        raise DataError(f"There is no report of an audit in {folder}.")
    if (folder / SHEET).is_file():
        yield Remnant(folder / SHEET, "images of forgotten examples")
    table = folder / TABLE
    if table.is_file() and b"\nforget," in table.read_bytes():
        yield Remnant(table, "names and numbers of forgotten examples")


def find_in_store(root: Path) -> list[Remnant]:
    """What audits with shadow models left in the store in ``root``, if there is one."""
    return list(_in_store(root)) if root.is_dir() else []


def _in_store(root: Path) -> Iterator[Remnant]:
    for entry in Store(root).entries(SHADOW):
        if (entry.folder / "scores.safetensors").is_file():  # otherwise it saw retained data only
            yield Remnant(entry.folder, "shadow model, trained on records to be forgotten")
    for path in sorted((root / ".data").glob("[!.]*")):
        if path.suffix != ".lock" and not _in_use(path):
            yield Remnant(path, "records of an audit, among them those to be forgotten")
    for path in sorted((root / ".work").glob("*")):
        if (path / ".checkpoint").is_file():
            yield Remnant(path, "checkpoint of a model that is not finished")
    for path in sorted((root / ".damaged").glob(f"{SHADOW}-*")):
        yield Remnant(path, "damaged shadow model")


def _in_use(path: Path) -> bool:
    try:
        with file_lock(path.with_suffix(".lock")):
            return False
    except Locked:
        return True


def require_signer(ledger: Ledger, key: SigningKey | None) -> None:
    """Raise if the head is signed and nobody signs the list of what is purged with it."""
    if key is None and is_there(ledger.root / HEAD):
        raise InvalidInput(
            f"The requests in {ledger.root} are signed, and so has to be the list of what is "
            "purged: give --sign KEY. Otherwise anybody could excuse a missing file."
        )


def purge(
    ledger: Ledger,
    remnants: Sequence[Remnant],
    store: Path | None = None,
    key: SigningKey | None = None,
) -> list[PurgedFile]:
    """Remove ``remnants``; the hashes of their files are on disk before the first one is gone.

    ``key`` signs the list of hashes together with the head of the ledger.
    """
    root = ledger.root
    require_signer(ledger, key)
    with exclusive_access(root), storage_errors(f"purge the requests in {root}"):
        new = [
            PurgedFile(
                file=_name(path, root),
                sha256=file_digest(path),
                size=path.stat().st_size,
                why=remnant.why,
                when=now(),
            )
            for remnant in remnants
            for path in remnant.files
        ]
        known = {(entry.file, entry.sha256): entry for entry in read_purged(root)}
        known |= {(entry.file, entry.sha256): entry for entry in new}
        content = _PurgedList(files=list(known.values())).model_dump(mode="json")
        write_text(root / PURGED, json.dumps(content, indent=1), private=True)
        if key is not None and ledger.last is not None:
            sign_head(root, ledger.last.evidence.request, ledger.head, key)
        for remnant in remnants:
            _remove(remnant, store)
    return new


def _name(path: Path, root: Path) -> str:
    inside = path.resolve().is_relative_to(root.resolve())
    path = path.resolve().relative_to(root.resolve()) if inside else path.resolve()
    return path.as_posix()


def _remove(remnant: Remnant, store: Path | None) -> None:
    if store is not None and remnant.path.parent == store / SHADOW:
        try:
            Store(store).remove(Ref(SHADOW, remnant.path.name))
        except Locked as error:
            raise DataError(
                f"An audit is at work with {remnant.path}. Wait for it to end; what was removed "
                f"until then is listed in {PURGED}."
            ) from error
    elif remnant.path.is_dir():
        shutil.rmtree(remnant.path)
    else:
        remnant.path.unlink(missing_ok=True)


def read_purged(root: Path) -> list[PurgedFile]:
    """The files that were purged from the requests in ``root``, in the order of their removal."""
    path = root / PURGED
    try:
        return _PurgedList.model_validate(read_json(path)).files
    except FileNotFoundError:
        return []
    except pydantic.ValidationError as error:
        raise DataError(f"{path} cannot be read: {error}.") from error


def may_be_purged(ledger: Ledger, entry: LedgerEntry) -> set[str]:
    """The files of a bundle that are purged.

    The evidence, the hashes of the records and the latest weights are not among them, so that a
    list which says otherwise does not excuse their absence.
    """
    allowed = {ATTEMPT, THUMBNAILS}
    if entry is not ledger.entries[-1]:
        allowed.add(WEIGHTS)
    return allowed | {PAGE} if entry.evidence.keep_examples else allowed
