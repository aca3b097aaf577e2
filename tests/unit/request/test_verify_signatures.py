"""Forged evidence: what is caught without a signature, and that everything is with one."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.request._ledger import Ledger, digest_of
from expunge.request._purge import Remnant, purge
from expunge.request._requests_subject import load_subject_of
from expunge.request._seal import write_seal
from expunge.request._signatures import sign_bundle, sign_head, sign_weights
from expunge.request._signing_keys import SigningKey
from expunge.request._verify import verify
from expunge.request._verify_signatures import UNSIGNED
from expunge.request.evidence import read_evidence
from expunge.request.subject._load import Subject
from tests.unit.request.forgeries import (
    FORGERIES,
    change_evidence,
    delete_the_last_and_its_trace,
    redo_hashes,
)
from tests.unit.request.keys import KeyFiles, make_key_files

DOCS = Path(__file__).parents[3] / "docs" / "requests.md"
COLUMNS = ("--quick", "full", "--head", "--key")


def documented() -> dict[str, dict[str, bool]]:
    """The table of ``docs/requests.md``: which forgery is caught, and how."""
    rows = re.findall(
        r"^\| (.+?) \| (yes|no) \| (yes|no) \| (yes|no) \| (yes|no) \|$",
        DOCS.read_text(),
        flags=re.MULTILINE,
    )
    return {
        name: dict(zip(COLUMNS, (word == "yes" for word in words), strict=True))
        for name, *words in rows
    }


TABLE = documented()


@pytest.fixture(scope="module")
def subject(two_requests: Path) -> Subject:
    return load_subject_of(Ledger.read(two_requests))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    pytest.importorskip("model_signing", reason="needs expunge[sign]")
    return make_key_files(tmp_path_factory.mktemp("keys"))


def sign_all(root: Path, key: SigningKey, numbers: Sequence[int] = (1, 2)) -> Path:
    """Sign requests as ``forget --sign`` would have, in the order they were made."""
    previous: Path | None = None
    for number in (1, 2):
        bundle = root / f"{number:04d}"

        def chain(evidence: Any, before: Path | None = previous, number: int = number) -> None:
            evidence["signed_by"] = key.key_id if number in numbers else None
            if before is not None:
                entry = Ledger.read(root).entries[number - 2]
                evidence["request"]["previous"] = entry.head

        change_evidence(bundle, chain)
        if number in numbers:
            sign_weights(bundle, key)
            change_evidence(bundle, lambda evidence: evidence["files"].update({"weights.sig": ""}))
        redo_hashes(bundle)
        if number in numbers:
            sign_bundle(bundle, read_evidence(bundle / "evidence.json"), key)
            entry = Ledger.read(root).entries[number - 1]
            sign_head(root, entry.evidence.request, entry.head, key)
        previous = bundle
    return root


@pytest.fixture(scope="module")
def signed(two_requests: Path, files: KeyFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two signed requests. Copy it before you change it."""
    root = shutil.copytree(two_requests, tmp_path_factory.mktemp("signed") / "requests")
    return sign_all(root, SigningKey.load(files.private))


def problems(root: Path, subject: Subject | None = None, **options: Any) -> list[str]:
    try:
        found = verify(root, subject, quick=subject is None, **options)
        return [problem for checked in found for problem in checked.problems]
    except DataError as error:
        return [str(error)]


def test_the_documentation_has_every_forgery() -> None:
    assert list(TABLE) == list(FORGERIES)
    assert all(row["--key"] for row in TABLE.values()), "each is caught with a signature"


@pytest.mark.parametrize("name", FORGERIES)
def test_what_is_caught_without_a_signature_is_what_the_documentation_says(
    two_requests: Path, subject: Subject, tmp_path: Path, name: str
) -> None:
    root = shutil.copytree(two_requests, tmp_path / "requests")
    noted, caught = Ledger.read(root).head, TABLE[name]
    FORGERIES[name](root)
    assert bool(problems(root)) == caught["--quick"]
    assert bool(problems(root, head=noted)) == caught["--head"]
    # All that hashes show is part of the full check.
    assert (
        caught["full"] if caught["--quick"] else (bool(problems(root, subject)) == caught["full"])
    )


@pytest.mark.parametrize("name", FORGERIES)
def test_every_forgery_is_caught_with_a_signature(
    signed: Path, files: KeyFiles, tmp_path: Path, name: str
) -> None:
    root = shutil.copytree(signed, tmp_path / "requests")
    assert problems(root, key=files.public) == []
    FORGERIES[name](root)
    assert problems(root, key=files.public) != []


def test_signatures_by_another_key_do_not_hold(
    signed: Path, files: KeyFiles, tmp_path: Path
) -> None:
    other = make_key_files(tmp_path / "other")
    found = problems(signed, key=other.public)
    assert sum("was not signed by" in problem for problem in found) == 3, "two bundles, one head"
    assert sum("is no signature of weights" in problem for problem in found) == 2
    forged = sign_all(
        shutil.copytree(signed, tmp_path / "requests"), SigningKey.load(other.private)
    )
    assert problems(forged, key=other.public) == []
    assert problems(forged, key=files.public) != []


def test_signatures_that_were_taken_away_are_missed(
    signed: Path, files: KeyFiles, tmp_path: Path
) -> None:
    root = shutil.copytree(signed, tmp_path / "requests")
    (root / "0002" / "bundle.dsse.json").unlink()
    assert any("bundle.dsse.json is missing" in problem for problem in problems(root))
    change_evidence(root / "0002", lambda evidence: evidence.update(signed_by=None))
    redo_hashes(root / "0002")
    assert problems(root) == [], "nothing but the key shows it"
    found = problems(root, key=files.public)
    assert "Request 2 is unsigned: no signature covers it." in found
    (root / "head.dsse.json").unlink()
    assert any("head.dsse.json is missing" in p for p in problems(root, key=files.public))


def test_a_chain_that_is_signed_in_part_says_which(
    two_requests: Path, files: KeyFiles, tmp_path: Path
) -> None:
    key = SigningKey.load(files.private)
    later = sign_all(shutil.copytree(two_requests, tmp_path / "later"), key, (2,))
    first, second = verify(later, quick=True, key=files.public)
    assert first.ok
    assert second.ok
    assert f"{UNSIGNED}, but not past the signature of request 2" in first.lines
    (later / "0001" / "report.html").write_text("")
    write_seal(later / "0001")
    assert problems(later, key=files.public) != []
    earlier = sign_all(shutil.copytree(two_requests, tmp_path / "earlier"), key, (1,))
    first, second = verify(earlier, quick=True, key=files.public)
    assert first.ok
    assert second.problems == ["Request 2 is unsigned: no signature covers it."]


def test_without_a_key_it_is_said_who_signed_and_what_is_unsigned(
    signed: Path, two_requests: Path
) -> None:
    assert all(UNSIGNED in checked.lines for checked in verify(two_requests, quick=True))
    for checked in verify(signed, quick=True):
        assert any(line.startswith("not checked: the signature by key") for line in checked.lines)


def test_an_older_state_with_its_own_signed_head_needs_the_noted_head(
    signed: Path, files: KeyFiles, tmp_path: Path
) -> None:
    root = shutil.copytree(signed, tmp_path / "requests")
    entries = Ledger.read(root).entries
    noted, first = entries[1].head, entries[0]
    # As it was after request 1.
    sign_head(root, first.evidence.request, first.head, SigningKey.load(files.private))
    delete_the_last_and_its_trace(root)
    assert problems(root, key=files.public) == [], "a true state, only not the latest"
    assert problems(root, key=files.public, head=noted) != []


def test_the_list_of_what_was_purged_is_signed_with_the_head(
    signed: Path, files: KeyFiles, tmp_path: Path
) -> None:
    root = shutil.copytree(signed, tmp_path / "requests")
    ledger, weights = Ledger.read(root), root / "0001" / "weights.safetensors"
    remnant = Remnant(weights, "weights from before a later request", 1)
    with pytest.raises(InvalidInput, match="give --sign KEY"):
        purge(ledger, [remnant])
    # A list that somebody else has written excuses nothing.
    entry = {"file": "0001/weights.safetensors", "sha256": digest_of(weights)}
    entry |= {"size": 1, "why": "", "when": "2026-01-01"}
    forged = shutil.copytree(root, tmp_path / "forged")
    (forged / "purged.json").write_text(json.dumps({"files": [entry]}))
    (forged / "0001" / "weights.safetensors").unlink()
    assert problems(forged) == [], "nothing but the key shows it"
    assert "purged.json is not the one that was signed" in problems(forged, key=files.public)[0]
    purge(ledger, [remnant], key=SigningKey.load(files.private))
    assert problems(root, key=files.public) == []
    (root / "purged.json").unlink()
    assert len(problems(root, key=files.public)) == 2, "the weights are missing, and the list"


def test_the_ledger_of_another_project_is_noticed_with_what_was_expected(
    signed: Path, files: KeyFiles, tmp_path: Path
) -> None:
    """The same key signs several ledgers, each of which is true."""
    root = shutil.copytree(signed, tmp_path / "requests")
    for number in (1, 2):
        change_evidence(
            root / f"{number:04d}", lambda evidence: evidence["request"]["ledger"].update(id="0")
        )
    sign_all(root, SigningKey.load(files.private))
    known = Ledger.read(signed).entries[0].evidence.request.ledger.id
    assert problems(root, key=files.public) == []
    assert problems(root, key=files.public, expect={"ledger": known}) != []
    shutil.copy(signed / "head.dsse.json", root)
    assert problems(root, key=files.public) == ["head.dsse.json is that of another ledger."]
