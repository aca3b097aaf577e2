"""Purge requests: remove what still remembers forgotten records, and keep the proof that it was.

What remembers: weights from before the latest request, models that were discarded, and
checkpoints. The hash of every removed file is kept in ``purged.json`` beside the requests.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from expunge._environment import now
from expunge._errors import InvalidInput
from expunge._files import file_digest, is_there, storage_errors, write_text
from expunge._strict_json import read_model
from expunge.data import cache_dir
from expunge.evidence import Section
from expunge.ledger._ledger import PURGED, WEIGHTS, Ledger, LedgerEntry, exclusive_access
from expunge.ledger._seal import DISCARDED
from expunge.ledger._signatures import HEAD, SigningKey, sign_head


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


class PurgedFile(Section):
    """A file that was removed; its path is relative to the folder of the requests."""

    file: str
    sha256: str
    size: int
    why: str
    when: str


class _PurgedList(Section):
    files: list[PurgedFile]


def find_remnants(ledger: Ledger) -> list[Remnant]:
    """What still remembers in the folder of the requests."""
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
    return found + [Remnant(path, "left by a run that was killed") for path in abandoned]


def purgeable(ledger: Ledger, entry: LedgerEntry) -> dict[str, str]:
    """The files of a bundle that remember, and why.

    The evidence, the hashes of the records and the latest weights are not among them, so that a
    list of purged files which says otherwise does not excuse their absence.
    """
    names = {DISCARDED: "model of a run that was discarded"}
    if entry is not ledger.entries[-1]:
        names[WEIGHTS] = "weights from before a later request"
    return names


def remnants_elsewhere(ledger: Ledger) -> list[str]:
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
    store = cache_dir() / "store"
    if store.is_dir():
        words.append(f"{store}, where `expunge audit` keeps data and shadow models.")
    return words


def require_signer(ledger: Ledger, key: SigningKey | None) -> None:
    """Raise if the head is signed and nobody signs the list of what is purged with it."""
    if key is None and is_there(ledger.root / HEAD):
        raise InvalidInput(
            f"The requests in {ledger.root} are signed, and so has to be the list of what is "
            "purged: give --sign KEY. Otherwise anybody could excuse a missing file."
        )


def purge(
    ledger: Ledger, remnants: Sequence[Remnant], key: SigningKey | None = None
) -> list[PurgedFile]:
    """Remove ``remnants``; the hashes of their files are on disk before the first one is gone.

    ``key`` signs the list of hashes together with the head of the ledger.
    """
    root = ledger.root
    require_signer(ledger, key)
    with exclusive_access(root), storage_errors(f"purge the requests in {root}"):
        new = [
            PurgedFile(
                file=path.relative_to(root).as_posix(),
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
            if remnant.path.is_dir():
                shutil.rmtree(remnant.path)
            else:
                remnant.path.unlink(missing_ok=True)
    return new


def read_purged(root: Path) -> list[PurgedFile]:
    """The files that were purged from the requests in ``root``, in the order of their removal."""
    try:
        return read_model(root / PURGED, _PurgedList).files
    except FileNotFoundError:
        return []
