"""Keys: which are read, and what is said of those that are not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from expunge._errors import DataError, InvalidInput
from expunge._files import file_digest
from expunge.ledger import _signing_keys as keys
from expunge.ledger._signing_keys import PublicKey, SigningKey, is_encrypted
from tests.unit.request.keys import PASSWORD, KeyFiles, make_key_files


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    return make_key_files(tmp_path)


@pytest.fixture
def _only_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are read by cryptography; the rest of the extra is needed for signatures alone."""
    monkeypatch.setattr(keys, "NEEDED", ("cryptography",))


@pytest.mark.usefixtures("_only_cryptography")
def test_the_id_of_a_key_is_the_hash_of_its_public_file(files: KeyFiles) -> None:
    key = SigningKey.load(files.private)
    assert key.key_id == PublicKey.load(files.public).key_id == file_digest(files.public)
    assert "private" not in repr(key)


@pytest.mark.usefixtures("_only_cryptography")
def test_an_encrypted_key_needs_its_password(files: KeyFiles) -> None:
    assert is_encrypted(files.encrypted)
    assert not is_encrypted(files.private)
    same = SigningKey.load(files.encrypted, PASSWORD)
    assert same.key_id == SigningKey.load(files.private, "not needed").key_id
    assert PASSWORD not in repr(same)
    with pytest.raises(InvalidInput, match="is encrypted: put its password into EXPUNGE_SIGN"):
        SigningKey.load(files.encrypted)
    with pytest.raises(InvalidInput, match="the password is wrong"):
        SigningKey.load(files.encrypted, "other")


@pytest.mark.usefixtures("_only_cryptography")
def test_other_files_are_refused_with_the_remedy(files: KeyFiles, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="openssl ec -in KEY -pubout"):
        PublicKey.load(files.private)
    with pytest.raises(InvalidInput, match="openssl ecparam"):
        SigningKey.load(files.public)
    other = make_key_files(tmp_path / "other", "SECP256K1")
    with pytest.raises(InvalidInput, match="on P-256, P-384 or P-521"):
        SigningKey.load(other.private)
    with pytest.raises(InvalidInput, match="on P-256, P-384 or P-521"):
        PublicKey.load(other.public)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        SigningKey.load(tmp_path / "absent.pem")


def test_without_the_extra_the_error_says_how_to_install_it(
    files: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "model_signing", None)
    for load in (SigningKey.load, PublicKey.load):
        with pytest.raises(InvalidInput, match=r"pip install 'expunge\[sign\]'"):
            load(files.private)
