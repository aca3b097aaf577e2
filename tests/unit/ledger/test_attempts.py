"""Attempts to forget the same records, here and in other folders."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from expunge.ledger._attempts import (
    digest_records,
    earlier_attempts,
    journal_path,
    read_journal,
    write_attempt,
)
from expunge.ledger._ledger import Ledger
from tests.unit.request.jobs import JobMaker, carry_out_quietly

IDS = [1, 2, 3]


def test_a_run_is_one_attempt_with_its_latest_status(tmp_path: Path) -> None:
    records = digest_records("ids", "weights")
    write_attempt(records, "first", 0, "not finished")
    write_attempt(records, "second", 1, "not finished")
    write_attempt(records, "first", 0, "not achieved")
    write_attempt(digest_records("ids", "other weights"), "third", 2, "achieved")
    assert [(line.run, line.seed, line.status) for line in read_journal(records)] == [
        ("first", 0, "not achieved"),
        ("second", 1, "not finished"),
    ]
    found = earlier_attempts(Ledger(tmp_path), "ids", "weights", run="second")
    assert [(attempt.seed, attempt.request) for attempt in found] == [(0, None)]


def test_the_journal_is_private_and_holds_no_ids_and_no_paths() -> None:
    write_attempt(digest_records("ids", "weights"), "run", 0, "achieved")
    path = journal_path()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert set(json.loads(path.read_text())) == {"records", "run", "seed", "when", "status"}


def test_a_journal_that_is_damaged_or_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_attempt("records", "run", 0, "achieved")
    with journal_path().open("a") as file:
        file.write('{"half": \n[]\n{"records": "records"}\n\x00\n')
    assert len(read_journal("records")) == 1
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EXPUNGE_CACHE", str(tmp_path / "file" / "cache"))
    write_attempt("records", "run", 0, "achieved")
    assert read_journal("records") == []


@pytest.mark.usefixtures("no_figures")
def test_another_seed_in_another_folder_is_a_second_attempt(
    make_request: JobMaker, tmp_path: Path
) -> None:
    first = carry_out_quietly(make_request(IDS, max_epochs=1)).evidence
    second = carry_out_quietly(
        make_request(IDS, max_epochs=1, seed=1, out=tmp_path / "elsewhere")
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


@pytest.mark.usefixtures("no_figures")
def test_a_request_repeated_in_its_folder_is_counted_once(make_request: JobMaker) -> None:
    first = carry_out_quietly(make_request(IDS, lr=1e-6, max_epochs=1)).evidence
    assert first is not None
    assert not first.achieved
    second = carry_out_quietly(make_request(IDS, lr=1e-6, max_epochs=1, seed=1)).evidence
    assert second is not None
    assert [attempt.request for attempt in second.attempts] == [1]
