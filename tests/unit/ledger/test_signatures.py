"""Which keys are read, what a signature says, and whom it does not fool."""

from __future__ import annotations

import base64
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from expunge._errors import DataError, InvalidInput
from expunge._files import file_digest
from expunge.ledger import _signatures as signatures
from expunge.ledger._ledger import Ledger
from expunge.ledger._seal import read_seal, write_seal
from expunge.ledger._signatures import PublicKey, SigningKey, is_encrypted
from tests.unit.request.keys import PASSWORD, KeyFiles, make_key_files


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    return make_key_files(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def root(two_requests: Path, tmp_path: Path, files: KeyFiles) -> Path:
    """Two requests, the second of them signed afterwards."""
    pytest.importorskip("securesystemslib", reason="needs expunge[sign]")
    root = shutil.copytree(two_requests, tmp_path / "requests")
    key, entry = SigningKey.load(files.encrypted, PASSWORD), Ledger.read(root).entries[1]
    write_seal(entry.folder)
    signatures.sign_bundle(entry.folder, entry.evidence, key)
    signatures.sign_head(root, entry.evidence.request, entry.head, key)
    return root


def statement(path: Path) -> Any:
    return json.loads(base64.b64decode(json.loads(path.read_text())["payload"]))


def test_a_bundle_is_signed_by_an_in_toto_statement_about_every_file(
    root: Path, files: KeyFiles
) -> None:
    entry, public = Ledger.read(root).entries[1], PublicKey.load(files.public)
    signed = statement(entry.folder / "bundle.dsse.json")
    assert signed["_type"] == "https://in-toto.io/Statement/v1"
    names = {subject["name"] for subject in signed["subject"]}
    assert names == {*read_seal(entry.folder), "evidence.sha256"}
    assert "weights.safetensors" in names
    assert signed["predicate"]["verdict"] == entry.evidence.status
    assert signed["predicate"]["previous"] == Ledger.read(root).entries[0].head
    assert signatures.bundle_problems(entry, public) == []
    assert signed["predicate"]["ledger"] == entry.evidence.request.ledger.model_dump()
    assert signatures.signed_head_problem(Ledger.read(root), public) == ""


def test_a_signature_by_another_key_does_not_hold(root: Path, tmp_path: Path) -> None:
    other = PublicKey.load(make_key_files(tmp_path / "other").public)
    entry = Ledger.read(root).entries[1]
    (problem,) = signatures.bundle_problems(entry, other)
    assert "was not signed by" in problem
    assert "was not signed by" in signatures.signed_head_problem(Ledger.read(root), other)


def test_a_signature_is_of_one_bundle_and_of_one_kind(root: Path, files: KeyFiles) -> None:
    public, entry = PublicKey.load(files.public), Ledger.read(root).entries[1]
    path = entry.folder / "bundle.dsse.json"
    good = path.read_bytes()
    shutil.copy(root / "head.dsse.json", path)
    assert "it is about urn:expunge:ledger-head" in signatures.bundle_problems(entry, public)[0]
    path.write_bytes(good)
    shutil.copy(path, root / "0001" / "bundle.dsse.json")
    problems = signatures.bundle_problems(Ledger.read(root).entries[0], public)
    assert problems[-1] == "bundle.dsse.json is that of another request."
    assert any("is not the one that was signed" in problem for problem in problems)


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"payload": "e30=", "payloadType": "x"}'])
def test_a_damaged_signature_is_a_problem_and_no_crash(
    root: Path, files: KeyFiles, content: str
) -> None:
    public, entry = PublicKey.load(files.public), Ledger.read(root).entries[1]
    (entry.folder / "bundle.dsse.json").write_text(content)
    assert len(signatures.bundle_problems(entry, public)) == 1


@pytest.fixture
def _only_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are read by cryptography; the rest of the extra is needed for signatures alone."""
    monkeypatch.setattr(signatures, "NEEDED", ("cryptography",))


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
    monkeypatch.setitem(sys.modules, "securesystemslib", None)
    for load in (SigningKey.load, PublicKey.load):
        with pytest.raises(InvalidInput, match=r"pip install 'expunge\[sign\]'"):
            load(files.private)
