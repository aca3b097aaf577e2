"""Evidence that still holds, and evidence that was changed."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from expunge import _files
from expunge._errors import DataError, InvalidInput
from expunge.ledger._ledger import Ledger
from expunge.request._reload import reload_model_and_data
from expunge.request._verify import verify
from expunge.request.loading._load import ModelAndData
from tests.unit.request.chains import make_chain
from tests.unit.request.forgeries import change_evidence, forgeries, redo_hashes


@pytest.fixture
def folder(two_requests: Path, tmp_path: Path) -> Path:
    """The folder of two requests, to change at will."""
    return shutil.copytree(two_requests, tmp_path / "requests")


@pytest.fixture(scope="module")
def loaded(two_requests: Path) -> ModelAndData:
    return reload_model_and_data(Ledger.read(two_requests))


def problems(folder: Path) -> list[str]:
    return [problem for checked in verify(folder, quick=True) for problem in checked.problems]


def test_untouched_evidence_holds(two_requests: Path, loaded: ModelAndData) -> None:
    assert all(verification.verified for verification in verify(two_requests, loaded))


def test_the_verdict_is_repeated_beside_what_holds(folder: Path) -> None:
    statuses = [entry.evidence.status for entry in Ledger.read(folder).entries]
    assert [verification.status for verification in verify(folder, quick=True)] == statuses
    (folder / "0002" / "evidence.sha256").unlink()
    assert verify(folder, quick=True)[1].status is None


def test_every_change_is_noticed(folder: Path, loaded: ModelAndData) -> None:
    for name, words in (
        ("letter.md", "letter.md was changed"),
        ("weights.safetensors", "weights.safetensors was changed"),
        ("report.html", "report.html was changed"),
        ("evidence.json", "evidence.json was changed"),
        ("evidence.sha256", "is not the one that request 2 was made after"),
    ):
        path = folder / "0001" / name
        content = path.read_bytes()
        path.write_bytes(content[:-2] + b" " + content[-2:])
        problems = [p for verification in verify(folder, loaded) for p in verification.problems]
        assert any(words in problem for problem in problems), name
        path.write_bytes(content)
    (folder / "0001" / "letter.md").unlink()
    assert "letter.md is missing." in verify(folder, quick=True)[0].problems


def test_a_head_that_was_noted_says_what_came_after(folder: Path) -> None:
    heads = [entry.head for entry in Ledger.read(folder).entries]
    for head, words in ((heads[1], "request 2"), (heads[0], "request 1; 1 request came after it")):
        verifications = verify(folder, quick=True, head=head)
        assert verifications[1].lines[-1] == f"holds: the head that was noted is that of {words}"
    forgeries()["the last request deleted, `head.json` rewritten"].apply(folder)
    assert all(verification.ok for verification in verify(folder, quick=True)), (
        "nothing here knows of it"
    )
    assert "No request has the hash" in verify(folder, quick=True, head=heads[1])[0].problems[0]


def test_damaged_evidence_is_reported_and_stops_nothing(folder: Path) -> None:
    (folder / "0001" / "evidence.json").write_text("{")
    first, second = verify(folder, quick=True, head="0" * 64)
    assert "evidence.json is not valid JSON" in first.problems[0]
    assert not second.ok


def test_numbers_that_do_not_come_out_are_noticed(folder: Path, loaded: ModelAndData) -> None:
    def change(evidence: Any) -> None:
        next(m for m in evidence["metrics"] if m["name"] == "ta")["after"]["value"] = 12.0

    change_evidence(folder / "0002", change)
    redo_hashes(folder / "0002")
    problems = verify(folder, loaded)[1].problems
    assert any(problem.startswith("metrics.1.after.value is") for problem in problems)


@pytest.mark.skipif(sys.platform == "win32", reason="needs pipes")
@pytest.mark.parametrize(
    "name", ["0002/evidence.json", "0002/evidence.sha256", "0002/forgotten.json", "head.json",
             "purged.json", "0002/weights.safetensors"],
)  # fmt: skip
def test_a_pipe_in_place_of_a_file_is_a_problem_and_not_waited_for(folder: Path, name: str) -> None:
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    assert problems(folder) != []
    (folder / name).unlink()
    (folder / name).write_text("[" * 100_000)
    assert problems(folder) != []


def test_a_folder_without_requests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="There are no requests"):
        verify(tmp_path)


def test_every_file_is_read_a_few_times_however_many_requests_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: Counter[Path] = Counter()
    original = _files.open_regular

    def counting(path: str | Path) -> Any:
        reads[Path(path)] += 1
        return original(path)

    monkeypatch.setattr(_files, "open_regular", counting)
    make_chain(tmp_path / "requests", 30)
    reads.clear()
    found = verify(tmp_path / "requests", quick=True, head="0" * 64)
    assert [problem for each in found[:-1] for problem in each.problems] == []
    assert "No request has the hash" in found[-1].problems[0]
    assert max(reads.values()) <= 3


@pytest.mark.thorough
def test_ten_thousand_requests_are_verified_in_their_order(tmp_path: Path) -> None:
    ledger = make_chain(tmp_path / "requests", 10_001)
    found = verify(ledger.root, quick=True, head=ledger.entries[9_999].head)
    assert [each.problems for each in found] == [[]] * 10_001
    words = "the head that was noted is that of request 10000; 1 request came after it"
    assert found[-1].lines[-1] == f"holds: {words}"


def test_what_is_known_from_elsewhere_is_compared(folder: Path) -> None:
    first = Ledger.read(folder).entries[0]
    name = first.evidence.request.ledger
    known = {
        "ledger": name.id,
        "model": first.evidence.hashes.weights_before,
        "data": first.evidence.hashes.data,
        "requests": "2",
        "evidence": first.digest,
    }
    assert all(each.ok for each in verify(folder, quick=True, expect=known))
    for key, value in known.items():
        other = "3" if key == "requests" else "0" * len(value)
        (problem,) = verify(folder, quick=True, expect={key: other})[-1].problems
        assert other in problem, key
    for wrong in ({"weights": "0"}, {"requests": "two"}):
        with pytest.raises(InvalidInput, match=r"`expect` should be|is a number"):
            verify(folder, quick=True, expect=wrong)
    # The fingerprint of the evidence, which letters have, is no head.
    assert not verify(folder, quick=True, head=first.digest)[-1].ok
