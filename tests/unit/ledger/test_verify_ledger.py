"""Forged evidence: what is caught without a signature, and that everything is with one."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.evidence import read_evidence
from expunge.ledger._ledger import Ledger, digest_of
from expunge.ledger._purge import Remnant, purge
from expunge.ledger._seal import write_seal
from expunge.ledger._signatures import HEAD, SigningKey, sign_bundle, sign_head
from expunge.ledger._verify_ledger import UNSIGNED
from expunge.request._reload import reload_model_and_data
from expunge.request._verify import verify
from expunge.request.loading._load import ModelAndData
from tests.unit.request.forgeries import (
    BEFORE,
    MODES,
    PAGE,
    change_evidence,
    documented,
    forgeries,
    outcome,
    redo_hashes,
    write_page,
)
from tests.unit.request.keys import KeyFiles, make_key_files


@pytest.fixture(scope="module")
def loaded(two_requests: Path) -> ModelAndData:
    return reload_model_and_data(Ledger.read(two_requests))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> KeyFiles:
    pytest.importorskip("securesystemslib", reason="needs expunge[sign]")
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
        redo_hashes(bundle)
        if number in numbers:
            sign_bundle(bundle, read_evidence(bundle / "evidence.json"), key)
            entry = Ledger.read(root).entries[number - 1]
            sign_head(root, entry.evidence.request, entry.head, key)
            if number == 1:
                shutil.copy(root / HEAD, root / BEFORE)
        previous = bundle
    return root


@pytest.fixture(scope="module")
def signed(two_requests: Path, files: KeyFiles, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two signed requests. Copy it before you change it."""
    root = shutil.copytree(two_requests, tmp_path_factory.mktemp("signed") / "requests")
    return sign_all(root, SigningKey.load(files.private))


def problems(root: Path, loaded: ModelAndData | None = None, **options: Any) -> list[str]:
    try:
        found = verify(root, loaded, quick=loaded is None, **options)
        return [problem for checked in found for problem in checked.problems]
    except DataError as error:
        return [str(error)]


def row_of(
    name: str,
    unsigned: Path,
    signed: Path,
    folder: Path,
    files: KeyFiles,
    loaded: ModelAndData | None,
) -> list[str]:
    """What verify makes of a forgery in every mode, and what it says; full only where loaded."""
    first = Ledger.read(unsigned).entries[0].evidence.request.ledger
    roots = {"unsigned": unsigned, "signed": signed}
    heads = {kind: Ledger.read(root).head for kind, root in roots.items()}
    forged = {kind: shutil.copytree(root, folder / kind) for kind, root in roots.items()}
    for root in forged.values():
        forgeries()[name].apply(root)
    quick = {"quick": True}
    found = {
        "--quick": outcome(forged["unsigned"], **quick),
        "--expect": outcome(
            forged["unsigned"], **quick, expect={"ledger": first.id, "requests": "2"}
        ),
        "--head": outcome(forged["unsigned"], **quick, head=heads["unsigned"]),
        "--key": outcome(forged["signed"], **quick, key=files.public),
    }
    if found["--quick"][0] == "caught":  # all that hashes show is part of the full check
        found["full"] = found["--quick"]
    elif loaded is not None:
        known = None if any(step[0] == "job" for step in forgeries()[name].steps) else loaded
        found["full"] = outcome(forged["unsigned"], loaded=known)
    else:
        found["full"] = ("", "")
    said = next((found[mode][1] for mode in MODES if found[mode][1]), "")
    return [*(found[mode][0] for mode in MODES), shortened(said)]


def shortened(said: str) -> str:
    """What verify said, without what differs from one computer to another."""
    said = re.sub(r"/[^\s:]*/", "", said)
    said = re.sub(r" is .*, not .*$", "", said) if re.match(r"[\w.: -]+ is ", said) else said
    said = re.sub(r"^(verdict|checks|metrics|classes)\.[\w.]+$", r"\1", said)
    return said if len(said) <= 90 else f"{said[:90].rpartition(' ')[0]} …"


def test_the_page_has_every_forgery() -> None:
    assert list(documented()) == list(forgeries())
    security = (PAGE.parents[2] / "SECURITY.md").read_text(encoding="utf-8")
    assert f"has {len(forgeries())} ways to forge evidence" in security

    def passing(mode: str) -> list[str]:
        return [name for name, row in documented().items() if row[MODES.index(mode)] == "passes"]

    assert passing("--key") == ["the last request deleted, the signed head from before it put back"]
    assert passing("--head") == ["old weights deleted, `purged.json` written to excuse it"]


@pytest.mark.parametrize("name", forgeries())
def test_a_forgery_is_caught_as_the_page_says(
    two_requests: Path,
    signed: Path,
    loaded: ModelAndData,
    files: KeyFiles,
    tmp_path: Path,
    name: str,
) -> None:
    known = loaded if forgeries()[name].usual else None
    row = row_of(name, two_requests, signed, tmp_path, files, known)
    stated = documented()[name]
    if row[MODES.index("full")]:
        assert row == stated
    else:  # `make thorough` has the rest
        modes = [k for k, mode in enumerate(MODES) if mode != "full"]
        assert [row[k] for k in modes] == [stated[k] for k in modes]


@pytest.mark.thorough
def test_the_page_of_forgeries_is_what_verify_says(
    two_requests: Path, signed: Path, loaded: ModelAndData, files: KeyFiles, tmp_path: Path
) -> None:
    """``EXPUNGE_WRITE_DOCS=1`` writes the page again."""
    rows = {
        name: row_of(name, two_requests, signed, tmp_path / str(number), files, loaded)
        for number, name in enumerate(forgeries())
    }
    if "EXPUNGE_WRITE_DOCS" in os.environ:
        write_page(rows)
    assert rows == documented()


def test_nothing_is_caught_where_nothing_is_forged(
    two_requests: Path, signed: Path, loaded: ModelAndData, files: KeyFiles
) -> None:
    assert outcome(two_requests, loaded=loaded) == ("passes", "")
    assert outcome(signed, quick=True, key=files.public) == ("passes", "")


def test_signatures_by_another_key_do_not_hold(
    signed: Path, files: KeyFiles, tmp_path: Path
) -> None:
    other = make_key_files(tmp_path / "other")
    found = problems(signed, key=other.public)
    assert sum("was not signed by" in problem for problem in found) == 3, "two bundles, one head"
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
