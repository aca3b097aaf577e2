"""Purge requests: remove what still remembers forgotten records, and keep the proof that it was.

What remembers: weights from before the latest request, attempts that were discarded, checkpoints,
kept examples, and what audits with shadow models left in their store. The hash of every removed
file is kept in ``purged.json`` beside the requests.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pydantic

from expunge._errors import DataError, InvalidInput
from expunge._files import file_digest, is_there, storage_errors, write_text
from expunge._strict_json import read_model
from expunge.ledger._ledger import PURGED, WEIGHTS, Ledger, LedgerEntry, exclusive_access
from expunge.ledger._seal import ATTEMPT, PAGE, THUMBNAILS
from expunge.ledger._signatures import HEAD, SigningKey, sign_head
from expunge.store import Locked, Ref, Store, file_lock, now

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


def find_remnants(ledger: Ledger, store: Path | None = None) -> list[Remnant]:
    """What still remembers: in the requests, and in the ``store`` of audits."""
    root = ledger.root
    found = [
        Remnant(entry.folder / name, why, entry.number)
        for entry in ledger.entries
        for name, why in purgeable(ledger, entry).items()
        if (entry.folder / name).is_file()
    ]
    if (root / ".work").is_dir():
        found.append(Remnant(root / ".work", "checkpoint of a request that is not finished"))
    abandoned = sorted([*root.glob(".[0-9]*.new"), *root.glob(".*.tmp")])
    found += [Remnant(path, "left by a run that was killed") for path in abandoned]
    return found if store is None else found + find_in_store(store)


def purgeable(ledger: Ledger, entry: LedgerEntry) -> dict[str, str]:
    """The files of a bundle that remember, and why.

    The evidence, the hashes of the records and the latest weights are not among them, so that a
    list of purged files which says otherwise does not excuse their absence.
    """
    names = {ATTEMPT: "model of a run that was discarded"}
    if entry is not ledger.entries[-1]:
        names[WEIGHTS] = "weights from before a later request"
    if entry.evidence.keep_examples:
        names |= dict.fromkeys((THUMBNAILS, PAGE), "images and labels of forgotten records")
    return names


def outside_of(ledger: Ledger) -> list[str]:
    """What is known to remember and is not purged, in sentences."""
    first, last = ledger.entries[0].evidence, ledger.entries[-1].evidence
    words = []
    weights = Path(str(first.config.get("weights", "")))
    if first.in_memory:
        words.append("the model from before the first request, which was given in Python.")
    elif weights.is_file():
        words.append(f"{weights}, the weights from before the first request.")
    if not last.unlearned:
        words.append(
            f"{ledger.weights}, the latest weights: the last request was not achieved, so they "
            "remember its records."
        )
    return words


def find_in_store(root: Path) -> list[Remnant]:
    """What audits with shadow models left in the store in ``root``, if there is one."""
    if not root.is_dir():
        return []
    trained_on_them = [
        entry.folder
        for entry in Store(root).entries(SHADOW)
        if (entry.folder / "scores.safetensors").is_file()  # otherwise it saw retained data only
    ]
    data = [
        path
        for path in sorted((root / ".data").glob("[!.]*"))
        if path.suffix != ".lock" and not _in_use(path)
    ]
    unfinished = [
        path for path in sorted((root / ".work").glob("*")) if (path / ".checkpoint").is_file()
    ]
    found = {
        "shadow model, trained on records to be forgotten": trained_on_them,
        "records of an audit, among them those to be forgotten": data,
        "checkpoint of a model that is not finished": unfinished,
        "damaged shadow model": sorted((root / ".damaged").glob(f"{SHADOW}-*")),
    }
    return [Remnant(path, why) for why, paths in found.items() for path in paths]


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
                file=_name(path.resolve(), root.resolve()),
                sha256=file_digest(path),
                size=path.stat().st_size,
                why=remnant.why,
                when=now(),
            )
            for remnant in remnants
            for path in remnant.files
        ]
        known = {(each.file, each.sha256): each for each in [*read_purged(root), *new]}
        content = _PurgedList(files=list(known.values())).model_dump(mode="json")
        write_text(root / PURGED, json.dumps(content, indent=1), private=True)
        if key is not None and ledger.last is not None:
            sign_head(root, ledger.last.evidence.request, ledger.head, key)
        for remnant in remnants:
            _remove(remnant, store)
    return new


def _name(path: Path, root: Path) -> str:
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


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
    try:
        return read_model(root / PURGED, _PurgedList).files
    except FileNotFoundError:
        return []
