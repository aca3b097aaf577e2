"""Keyed hashes of ids, and the file of their key."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.ledger._id_key import (
    IdKey,
    create_id_key,
    default_key_path,
    find_id_key,
    require_id_key,
)
from expunge.ledger._ledger import Ledger


def test_hashes_are_hmacs_that_keep_ids_and_records_apart(tmp_path: Path) -> None:
    key = IdKey(bytes(range(32)), tmp_path)
    expected = hmac.new(bytes(range(32)), b"id/anna", hashlib.sha256).hexdigest()
    assert key.hash_id("anna") == expected
    hashes = {
        key.hash_id("7"),
        key.hash_record(7),
        key.hash_record(7, "val"),
        IdKey(bytes(32), tmp_path).hash_id("7"),
    }
    assert len(hashes) == 4
    assert "secret" not in repr(key)


def test_a_key_is_written_once_and_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "new" / "id.key"
    assert find_id_key(path) is None
    key = create_id_key(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(key.secret) == 32
    assert create_id_key(path) == find_id_key(path) == require_id_key(path) == key
    assert [p.name for p in path.parent.iterdir()] == ["id.key"]


def test_the_default_key_is_in_the_configuration_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("EXPUNGE_ID_KEY")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert default_key_path() == tmp_path / "expunge" / "id.key"
    monkeypatch.setenv("EXPUNGE_ID_KEY", str(tmp_path / "mine"))
    assert default_key_path() == tmp_path / "mine"


@pytest.mark.parametrize(
    ("text", "words"), [("0123", "64 hexadecimal digits or more"), ("secret!", "cannot be read")]
)
def test_a_file_that_is_no_key_is_refused(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "id.key").write_text(text)
    with pytest.raises((DataError, InvalidInput), match=words):
        find_id_key(tmp_path / "id.key")
    with pytest.raises(DataError, match="There is no id key"):
        require_id_key(tmp_path / "other.key")
    with pytest.raises(DataError, match=r"cannot be read: .*not a regular file"):
        find_id_key(tmp_path)


def test_only_the_key_of_a_request_tells_its_records(two_requests: Path, tmp_path: Path) -> None:
    key = require_id_key()
    ledger = Ledger.read(two_requests)
    with pytest.raises(DataError, match=r"keyed hashes. Give the key .* --id-key"):
        _ = ledger.entries[0].forgotten_indices
    assert [entry.forgotten_indices for entry in ledger.unlocked(key, 120).entries] == [
        (1, 2, 3),
        (7, 8),
    ]
    for sizes in ({"records": 2}, {"records": 2, "val": 120}):
        with pytest.raises(DataError, match=r"names a record that is not in train\."):
            _ = ledger.unlocked(key, **sizes).entries[0].forgotten_indices
    with pytest.raises(InvalidInput, match="was made with another id key"):
        ledger.unlocked(create_id_key(tmp_path / "other.key"), 120)
    assert [entry.number for entry in ledger.find("2", key)] == [1]
    assert ledger.find("9", key) == []
