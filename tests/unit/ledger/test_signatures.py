"""What a signature says, and whom it does not fool."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from expunge.ledger import _signatures as signatures
from expunge.ledger._ledger import Ledger
from expunge.ledger._seal import read_seal, write_seal
from expunge.ledger._signing_keys import PublicKey, SigningKey
from tests.unit.request.keys import PASSWORD, KeyFiles, make_key_files

pytest.importorskip("model_signing", reason="needs expunge[sign]")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    return make_key_files(tmp_path_factory.mktemp("keys"))


@pytest.fixture
def root(two_requests: Path, tmp_path: Path, files: KeyFiles) -> Path:
    """Two requests, the second of them signed afterwards."""
    root = shutil.copytree(two_requests, tmp_path / "requests")
    key, entry = SigningKey.load(files.encrypted, PASSWORD), Ledger.read(root).entries[1]
    signatures.sign_weights(entry.folder, key)
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
    assert "weights.sig" in names
    assert signed["predicate"]["verdict"] == entry.evidence.status
    assert signed["predicate"]["previous"] == Ledger.read(root).entries[0].head
    assert signatures.bundle_problems(entry, public) == []
    assert signatures.weights_problem(entry.folder, public) == ""
    assert signed["predicate"]["ledger"] == entry.evidence.request.ledger.model_dump()
    assert signatures.head_problem(Ledger.read(root), public) == ""
    assert signatures.signer_of(entry.folder) == public.key_id
    assert signatures.signer_of(root / "0001") == ""


def test_a_signature_by_another_key_does_not_hold(root: Path, tmp_path: Path) -> None:
    other = PublicKey.load(make_key_files(tmp_path / "other").public)
    entry = Ledger.read(root).entries[1]
    (problem,) = signatures.bundle_problems(entry, other)
    assert "was not signed by" in problem
    assert "is no signature of weights.safetensors" in signatures.weights_problem(
        entry.folder, other
    )
    assert "was not signed by" in signatures.head_problem(Ledger.read(root), other)


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
    for name in ("bundle.dsse.json", "weights.sig"):
        (entry.folder / name).write_text(content)
    assert len(signatures.bundle_problems(entry, public)) == 1
    assert signatures.weights_problem(entry.folder, public) != ""
    assert signatures.signer_of(entry.folder) == "that cannot be read"
