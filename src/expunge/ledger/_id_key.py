"""Keyed hashes, which stand for ids in all that is written, and the key that makes them.

Whoever holds the key can check whether an id is among the hashes, and which records they stand for.
Without the key nobody can, not even by trying all possible ids.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pydantic

from expunge._errors import DataError, InvalidInput, StorageError
from expunge._files import read_regular

ID_KEY_VARIABLE = "EXPUNGE_ID_KEY"
"""The environment variable that names the key file."""
BYTES = 32


@dataclass(frozen=True)
class IdKey:
    """A secret, and the file that holds it."""

    secret: bytes = field(repr=False)
    path: Path

    def hash_id(self, requested_id: str) -> str:
        """HMAC-SHA-256 of an id as it was asked for: a name, an index, or a person."""
        return self._hash(f"id/{requested_id}")

    def hash_record(self, index: int, split: str = "train") -> str:
        """HMAC-SHA-256 of a record's place in the data."""
        return self._hash(f"record/{split}/{index}")

    @property
    def fingerprint(self) -> str:
        """A hash that says which key this is, and nothing about it."""
        return self._hash("fingerprint")[:16]

    def _hash(self, text: str) -> str:
        return hmac.digest(self.secret, text.encode(), "sha256").hex()


class ForgottenRecords(pydantic.BaseModel):
    """The records of a request as keyed hashes: the content of ``forgotten.json``."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

    key: str
    """The fingerprint of the key that the hashes were made with."""
    records: list[str]
    """Those that are gone, with duplicates of what was asked for."""
    asked: list[str]
    ids: list[str]
    left_out: list[str]
    """Records of val and test that nothing was compared with, as they are a requester's own."""
    people: dict[str, int] = {}
    """Where ids are people: the number of records of each."""
    digest: str
    """Of ``ids`` and ``asked``: see :func:`digest_requested`."""


def digest_requested(ids: Sequence[str], asked: Sequence[str]) -> str:
    """The SHA-256 of hashed ids and records, for which no key is needed."""
    return hashlib.sha256(json.dumps([sorted(ids), sorted(asked)]).encode()).hexdigest()


def default_key_path() -> Path:
    """``$EXPUNGE_ID_KEY``, or ``id.key`` in the user's configuration folder of expunge."""
    if chosen := os.environ.get(ID_KEY_VARIABLE):
        return Path(chosen).expanduser()
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "expunge" / "id.key"


def find_id_key(path: Path | None = None) -> IdKey | None:
    """The key in ``path`` (default: the user's), or None if there is no such file."""
    path = path or default_key_path()
    try:
        text = read_regular(path).decode("ascii").strip()
        secret = bytes.fromhex(text)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"The id key {path} cannot be read: {error}.") from error
    if len(secret) < BYTES:
        raise InvalidInput(
            f"The id key {path} should hold {2 * BYTES} hexadecimal digits or more. (got "
            f"{len(text)}) Give another --id-key; a file that does not exist is created."
        )
    return IdKey(secret, path)


def require_id_key(path: Path | None = None) -> IdKey:
    """The key in ``path`` (default: the user's), which should be there."""
    key = find_id_key(path)
    if key is None:
        raise DataError(
            f"There is no id key {path or default_key_path()}. Give the one that these requests "
            "were made with: --id-key FILE. Without it, nobody can tell which records their hashes "
            "stand for."
        )
    return key


def create_id_key(path: Path | None = None) -> IdKey:
    """Write a new key to ``path`` (default: the user's) that its owner alone can read (mode 600).

    If another process has just written one, that one is the key.
    """
    path = path or default_key_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            Path(path).hardlink_to(name)  # a rename would replace the key of another process
        except FileExistsError:
            pass
        finally:
            Path(name).unlink()
    except OSError as error:
        raise StorageError(
            f"The id key {path} cannot be written: {error.strerror}. Choose another --id-key."
        ) from error
    return require_id_key(path)
