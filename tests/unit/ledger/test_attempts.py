"""Attempts to forget the same records, here and in other folders."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from expunge.ledger._attempts import (
    earlier_attempts,
    journal_path,
    read_journal,
    write_attempt,
)
from expunge.ledger._ledger import Ledger
from tests.unit.request.jobs import JobMaker, carry_out_quietly

IDS = [1, 2, 3]
RECORDS = ["a" * 64, "b" * 64, "0" * 64]


def test_a_run_is_one_attempt_with_its_latest_status(tmp_path: Path) -> None:
    write_attempt("weights", "first", 0, "not finished", RECORDS)
    write_attempt("weights", "second", 1, "not finished", RECORDS)
    write_attempt("weights", "first", 0, "not achieved")
    write_attempt("other weights", "third", 2, "achieved", RECORDS)
    assert [(line.run, line.seed, line.status) for line in read_journal("weights")] == [
        ("first", 0, "not achieved"),
        ("second", 1, "not finished"),
    ]
    found = earlier_attempts(Ledger(tmp_path), RECORDS, "weights", run="second")
    assert [(attempt.seed, attempt.request) for attempt in found] == [(0, None)]


def test_attempts_count_by_the_records_that_they_share(tmp_path: Path) -> None:
    write_attempt("weights", "first", 0, "not achieved", RECORDS)
    more = [*RECORDS[1:], "c" * 64]
    (found,) = earlier_attempts(Ledger(tmp_path), more, "weights", run="second")
    assert found.shared == 2, "one record less and another one more"
    assert earlier_attempts(Ledger(tmp_path), more[-1:], "weights", run="second") == []


def test_the_journal_is_private_and_holds_no_ids_and_no_paths() -> None:
    write_attempt("weights", "run", 0, "achieved", RECORDS)
    path = journal_path()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    line = json.loads(path.read_text())
    assert set(line) == {"model", "records", "run", "seed", "when", "status"}
    assert line["records"] == ["0" * 10, "a" * 10, "b" * 10], "keyed hashes, shortened"


def test_a_journal_that_is_damaged_or_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_attempt("weights", "run", 0, "achieved")
    with journal_path().open("a") as file:
        file.write('{"half": \n[]\n{"records": "records"}\n\x00\n')
    assert len(read_journal("weights")) == 1
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path / "file" / "cache"))
    write_attempt("weights", "run", 0, "achieved")
    assert read_journal("weights") == []


def test_another_seed_in_another_folder_is_a_second_attempt(
    make_request: JobMaker, tmp_path: Path
) -> None:
    first = carry_out_quietly(make_request(IDS, max_epochs=1)).evidence
    second = carry_out_quietly(
        make_request([*IDS[1:], 6], max_epochs=1, seed=1, out=tmp_path / "elsewhere")
    ).evidence
    assert first is not None
    assert second is not None
    assert (first.request.attempt, first.attempts) == (1, [])
    assert second.request.attempt == 2
    assert [(a.seed, a.status, a.request) for a in second.attempts] == [(0, first.status, None)]
    assert any("attempt 2 (seed 1)" in reason for reason in second.verdict.reasons)
    other = carry_out_quietly(
        make_request([4, 5], max_epochs=1, out=tmp_path / "other ids")
    ).evidence
    assert other is not None
    assert other.request.attempt == 1


def test_a_request_repeated_in_its_folder_is_counted_once(make_request: JobMaker) -> None:
    first = carry_out_quietly(make_request(IDS, lr=1e-6, max_epochs=1)).evidence
    assert first is not None
    assert not first.achieved
    second = carry_out_quietly(make_request(IDS, lr=1e-6, max_epochs=1, seed=1)).evidence
    assert second is not None
    assert [attempt.request for attempt in second.attempts] == [1]
