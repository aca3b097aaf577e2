"""Evidence that still holds, and evidence that was changed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from expunge._errors import DataError
from expunge._files import write_text
from expunge.request._ledger import Ledger
from expunge.request._verify import subject_of_requests, verify
from expunge.request.subject._load import Subject


@pytest.fixture
def folder(two_requests: Path, tmp_path: Path) -> Path:
    """The folder of two requests, to change at will."""
    return shutil.copytree(two_requests, tmp_path / "requests")


@pytest.fixture(scope="module")
def subject(two_requests: Path) -> Subject:
    subject, note = subject_of_requests(two_requests)
    assert note == ""
    assert subject is not None
    return subject


def test_untouched_evidence_holds(two_requests: Path, subject: Subject) -> None:
    assert all(verification.ok for verification in verify(two_requests, subject))


def test_the_verdict_is_repeated_beside_what_holds(folder: Path) -> None:
    statuses = [entry.evidence.status for entry in Ledger.read(folder).entries]
    assert [verification.status for verification in verify(folder)] == statuses
    (folder / "0002" / "evidence.sha256").unlink()
    assert verify(folder)[1].status is None


def test_every_change_is_noticed(folder: Path, subject: Subject) -> None:
    for name, words in (
        ("examples.csv", "examples.csv was changed"),
        ("weights.safetensors", "weights.safetensors was changed"),
        ("report.html", "report.html was changed"),
        ("evidence.json", "is not the one that request 2 was made after"),
    ):
        path = folder / "0001" / name
        content = path.read_bytes()
        path.write_bytes(content[:-2] + b" " + content[-2:])
        problems = [p for verification in verify(folder, subject) for p in verification.problems]
        assert any(words in problem for problem in problems), name
        path.write_bytes(content)
    (folder / "0001" / "examples.csv").unlink()
    assert "examples.csv is missing." in verify(folder)[0].problems


def test_a_head_that_was_noted_says_what_came_after(folder: Path) -> None:
    heads = [entry.head for entry in Ledger.read(folder).entries]
    for head, words in ((heads[1], "request 2"), (heads[0], "request 1; 1 request came after it")):
        verifications = verify(folder, head=head)
        assert verifications[1].lines[-1] == f"holds: the head that was noted is that of {words}"
    shutil.rmtree(folder / "0002")
    assert all(verification.ok for verification in verify(folder)), "nothing here knows of it"
    assert "No request has the hash" in verify(folder, head=heads[1])[0].problems[0]


def test_damaged_evidence_is_reported_and_stops_nothing(folder: Path) -> None:
    (folder / "0001" / "evidence.json").write_text("{")
    first, second = verify(folder, head="0" * 64)
    assert "is not the evidence of a request" in first.problems[0]
    assert not second.ok


def test_numbers_that_do_not_come_out_are_noticed(folder: Path, subject: Subject) -> None:
    path = folder / "0001" / "evidence.json"
    evidence = json.loads(path.read_text())
    next(m for m in evidence["metrics"] if m["name"] == "ta")["after"]["value"] = 12.0
    write_text(path, json.dumps(evidence))
    problems = verify(folder, subject)[0].problems
    assert any(problem.startswith("TA comes out as") for problem in problems)


def test_a_folder_without_requests_is_refused(tmp_path: Path) -> None:
    assert subject_of_requests(tmp_path) == (None, "")
    with pytest.raises(DataError, match="There are no requests"):
        verify(tmp_path)
