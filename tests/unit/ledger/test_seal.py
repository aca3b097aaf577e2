"""The list of a bundle's files, complete and without strangers, and the head of the ledger."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from expunge._errors import DataError
from expunge.evidence import Evidence, read_evidence
from expunge.ledger._ledger import Ledger
from expunge.ledger._seal import (
    HEAD_FILE,
    NOT_SEALED,
    files_in,
    head_problem,
    read_ledger_head,
    read_seal,
    seal_problems,
    write_ledger_head,
    write_seal,
)
from expunge.request._verify import verify
from tests.unit.request.forgeries import redo_hashes
from tests.unit.request.jobs import JobMaker, carry_out_quietly


@pytest.fixture
def bundle(two_requests: Path, tmp_path: Path) -> Path:
    """The folder of a request, to change at will."""
    return shutil.copytree(two_requests / "0001", tmp_path / "0001")


@pytest.fixture(scope="module")
def evidence(two_requests: Path) -> Evidence:
    return read_evidence(two_requests / "0001" / "evidence.json")


def test_a_seal_lists_every_file(bundle: Path, evidence: Evidence) -> None:
    sealed = read_seal(bundle)
    assert sealed.keys() == files_in(bundle) - NOT_SEALED
    assert "report.html" in sealed
    assert seal_problems(bundle, evidence, sealed) == []
    before = (bundle / "evidence.sha256").read_bytes()
    write_seal(bundle)
    assert (bundle / "evidence.sha256").read_bytes() == before


def test_gaps_contradictions_and_strangers_are_problems(bundle: Path, evidence: Evidence) -> None:
    sealed = read_seal(bundle)
    assert len(seal_problems(bundle, evidence, {})) >= len(evidence.files) + 2
    (gap,) = seal_problems(bundle, evidence, {k: v for k, v in sealed.items() if "json" not in k})[
        :1
    ]
    assert gap.startswith("evidence.sha256 does not list evidence.json")
    (contradiction,) = seal_problems(bundle, evidence, sealed | {"weights.safetensors": "0" * 64})
    assert "different hashes of weights.safetensors" in contradiction
    (bundle / "folder").mkdir()
    (bundle / "folder" / ".hidden").write_text("")
    (bundle / "link").symlink_to(bundle / "folder", target_is_directory=True)
    assert seal_problems(bundle, evidence, sealed) == [
        "folder/.hidden is not part of the bundle: evidence.json does not list it.",
        "link is not part of the bundle: evidence.json does not list it.",
    ]


@pytest.mark.parametrize(
    "line", ["", "0" * 64, "0" * 64 + "  /etc/passwd", "0" * 64 + "  a/../../b", "x" * 64 + "  a"]
)
def test_lines_that_are_no_hash_and_name_are_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "evidence.sha256").write_text(f"{'0' * 64}  a\n{line}\n")
    with pytest.raises(DataError, match="line 2"):
        read_seal(tmp_path)


def test_a_name_that_is_listed_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "evidence.sha256").write_text(f"{'0' * 64}  a\n{'1' * 64}  a\n")
    with pytest.raises(DataError, match="line 2"):
        read_seal(tmp_path)


@pytest.fixture
def folder(two_requests: Path, tmp_path: Path) -> Path:
    """The folder of two requests, to change at will."""
    return shutil.copytree(two_requests, tmp_path / "out")


def problems(folder: Path) -> list[str]:
    return [problem for checked in verify(folder, quick=True) for problem in checked.problems]


def test_the_head_knows_the_last_request(folder: Path) -> None:
    assert read_ledger_head(folder) == (2, Ledger.read(folder).head)
    assert "holds: all requests are here" in verify(folder, quick=True)[-1].lines


def test_a_last_request_that_is_gone_is_missed_and_stops_the_next(
    folder: Path, make_request: JobMaker
) -> None:
    shutil.rmtree(folder / "0002")
    assert problems(folder) == ["head.json lists 2 requests, 1 are here."]
    assert make_request.out == folder
    with pytest.raises(DataError, match=r"not complete: .*lists 2 requests, 1 are here.*back"):
        carry_out_quietly(make_request([20, 21], max_epochs=1))


def test_a_request_whose_seal_was_written_again_is_noticed(folder: Path) -> None:
    head = (folder / HEAD_FILE).read_text()
    (folder / "0002" / "report.html").write_text("All is well.")
    redo_hashes(folder / "0002")
    assert problems(folder) == []
    (folder / HEAD_FILE).write_text(head)
    assert problems(folder) == ["evidence.sha256 of request 2 is not the one that head.json knows."]


def test_a_head_that_is_not_up_to_date_or_not_there_is_not_a_forgery(folder: Path) -> None:
    write_ledger_head(Ledger(folder, Ledger.read(folder).entries[:1]))
    assert head_problem(Ledger.read(folder)) == "", "killed before it was written again"
    (folder / HEAD_FILE).unlink()
    assert problems(folder) == []
    assert any("head.json is missing" in line for line in verify(folder, quick=True)[-1].lines)


@pytest.mark.parametrize(
    "content",
    [
        *("", "{}", "[]", '{"requests": "two", "evidence.sha256": ""}'),
        '{"requests": 1e400, "evidence.sha256": ""}',
    ],
)
def test_a_damaged_head_is_an_error(folder: Path, content: str) -> None:
    (folder / HEAD_FILE).write_text(content)
    with pytest.raises(DataError, match=r"head.json (cannot be read|is not valid JSON)"):
        read_ledger_head(folder)
    assert "head.json" in problems(folder)[0]
