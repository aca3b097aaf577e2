"""The file that knows how many requests there are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from expunge._errors import DataError
from expunge.ledger._ledger import Ledger
from expunge.ledger._ledger_head import HEAD_FILE, head_problem, read_ledger_head, write_ledger_head
from expunge.request._verify import verify
from tests.unit.request.forgeries import redo_hashes
from tests.unit.request.jobs import JobMaker, carry_out_quietly


@pytest.fixture
def folder(two_requests: Path, tmp_path: Path) -> Path:
    """The folder of two requests, to change at will."""
    return shutil.copytree(two_requests, tmp_path / "out")


def problems(folder: Path) -> list[str]:
    return [problem for checked in verify(folder, quick=True) for problem in checked.problems]


def test_it_knows_the_last_request(folder: Path) -> None:
    head = read_ledger_head(folder)
    assert head is not None
    assert (head.requests, head.seal) == (2, Ledger.read(folder).head)
    assert "holds: all requests are here" in verify(folder, quick=True)[-1].lines


def test_a_last_request_that_is_gone_is_missed_and_stops_the_next(
    folder: Path, make_request: JobMaker
) -> None:
    shutil.rmtree(folder / "0002")
    assert problems(folder) == ["head.json lists 2 requests, 1 are here."]
    assert make_request.out == folder
    with pytest.raises(DataError, match=r"Requests are missing.*lists 2, 1 are here.*back"):
        carry_out_quietly(make_request([20, 21], max_epochs=1))


def test_a_request_whose_seal_was_written_again_is_noticed(folder: Path) -> None:
    head = (folder / HEAD_FILE).read_text()
    (folder / "0002" / "report.html").write_text("All is well.")
    redo_hashes(folder / "0002")
    assert problems(folder) == []
    (folder / HEAD_FILE).write_text(head)
    assert problems(folder) == ["evidence.sha256 of request 2 is not the one that head.json knows."]


def test_a_file_that_is_not_up_to_date_or_not_there_is_no_forgery(folder: Path) -> None:
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
def test_a_damaged_file_is_an_error(folder: Path, content: str) -> None:
    (folder / HEAD_FILE).write_text(content)
    with pytest.raises(DataError, match=r"head.json (cannot be read|is not valid JSON)"):
        read_ledger_head(folder)
    assert "head.json" in problems(folder)[0]
