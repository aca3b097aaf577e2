"""Requests in a row, and what stands in the way of the next."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from expunge._errors import DataError, InvalidInput, StorageError
from expunge.evidence import Evidence
from expunge.ledger._id_key import require_id_key
from expunge.ledger._ledger import Ledger, digest_of, exclusive_access
from expunge.request import _runner as runner
from tests.unit.request.jobs import FinishedRequest, JobMaker, carry_out_quietly


def test_the_next_request_starts_from_the_last_weights_and_keeps_what_is_gone_out_of_retain(
    make_request: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []
    original = runner.forget_records

    def spy(job: Any, loaded: Any, forget: Any, retain: Any, *args: Any, **run: Any) -> Any:
        calls.append({"model": loaded.model, "retain": len(retain)})
        return original(job, loaded, forget, retain, *args, **run)

    def finish(ids: list[int]) -> FinishedRequest:
        job = make_request(ids, max_epochs=1)
        return FinishedRequest.of(job, carry_out_quietly(job))

    monkeypatch.setattr(runner, "forget_records", spy)
    monkeypatch.setattr(Evidence, "achieved", property(lambda evidence: True))
    first = finish(list(range(10)))
    second = finish(list(range(5, 20)))
    third = finish([100, 101])
    assert [call["retain"] for call in calls] == [110, 100, 98]
    assert first.outcome.model is not None
    pairs = zip(calls[1]["model"].parameters(), first.outcome.model.parameters(), strict=True)
    for p, q in pairs:
        assert torch.equal(p, q)
    assert second.evidence.request.records == 10, "five of them were asked for before"
    assert [row.number for row in third.evidence.earlier] == [1, 2]
    assert third.evidence.request.previous == digest_of(second.folder / "evidence.sha256")
    name = first.evidence.request.ledger
    assert (name.model, name.data) == (
        first.evidence.hashes.weights_before,
        first.evidence.hashes.data,
    )
    assert third.evidence.request.ledger == second.evidence.request.ledger == name
    ledger = Ledger.read(make_request.out).unlocked(require_id_key(), 120)
    assert ledger.head == third.outcome.head == digest_of(third.folder / "evidence.sha256")
    assert [len(entry.forgotten_indices) for entry in ledger.entries] == [10, 10, 2]
    assert ledger.broken_seals() == []
    with pytest.raises(InvalidInput, match="nothing new to forget"):
        carry_out_quietly(make_request([3, 7]))


def test_changed_data_and_other_weights_are_refused(
    make_request: JobMaker, two_requests: Path
) -> None:
    shutil.copytree(two_requests / "0001", make_request.out / "0001")
    path = make_request.out / "0001" / "evidence.json"
    evidence = json.loads(path.read_text())
    for name, error, words in (
        ("data", DataError, "The data have changed since request 1"),
        ("weights_before", InvalidInput, "started with other weights"),
        ("weights_after", DataError, "was changed after request 1 wrote it"),
    ):
        wrong = evidence | {"hashes": evidence["hashes"] | {name: "0" * 64}}
        path.write_text(json.dumps(wrong))
        with pytest.raises(error, match=words):
            carry_out_quietly(make_request([4]))


def test_a_gap_in_the_ledger_and_damaged_entries_are_refused(
    two_requests: Path, tmp_path: Path
) -> None:
    shutil.copytree(two_requests / "0002", tmp_path / "0002")
    with pytest.raises(DataError, match="Request 1 is missing from the ledger"):
        Ledger.read(tmp_path)
    (tmp_path / "0002").rename(tmp_path / "0001")
    key = require_id_key()
    entry = Ledger.read(tmp_path).unlocked(key, 120).entries[0]
    assert entry.forgotten.ids == sorted(map(key.hash_id, ("7", "8")))
    assert entry.forgotten_indices == (7, 8)
    (entry.folder / "forgotten.json").write_text("{}")
    entry = Ledger.read(tmp_path).entries[0]
    with pytest.raises(DataError, match=r"key: Field required.*The ledger is damaged"):
        _ = entry.forgotten
    (entry.folder / "evidence.json").write_text("{")
    with pytest.raises(DataError, match="The ledger is damaged"):
        _ = entry.evidence


def test_requests_are_ordered_by_their_numbers_and_not_by_their_names(tmp_path: Path) -> None:
    for number in range(1, 10_003):
        (tmp_path / f"{number:04d}").mkdir()
    (tmp_path / "\uff11\uff10\uff10\uff10\uff13").mkdir()  # 10003, in full-width digits
    (tmp_path / "000\u0663").mkdir()
    entries = Ledger.read(tmp_path).entries
    assert [entry.number for entry in entries] == list(range(1, 10_003))
    assert entries[-1].folder.name == "10002"
    (tmp_path / "0002").rmdir()
    (tmp_path / "00002").mkdir()
    with pytest.raises(DataError, match="Request 2 is missing"):
        Ledger.read(tmp_path)


def test_a_folder_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"requets: there is no such folder\. Check the path\.$"):
        Ledger.read_existing(tmp_path / "requets")
    with pytest.raises(DataError, match=r"^There are no requests in [^:]*\.$"):
        Ledger.read_existing(tmp_path)


def test_a_folder_whose_name_no_folder_can_have_has_no_requests_and_gets_none(
    tmp_path: Path,
) -> None:
    assert Ledger.read(tmp_path / ("x" * 300)).entries == ()
    with (
        pytest.raises(StorageError, match="File name too long"),
        exclusive_access(tmp_path / ("x" * 300)),
    ):
        pass


def test_two_requests_at_once_on_one_folder_are_refused(make_request: JobMaker) -> None:
    job = make_request()
    with (
        exclusive_access(job.out),
        pytest.raises(StorageError, match="Another request is at work"),
    ):
        carry_out_quietly(job)
    assert not job.out.exists()


def test_a_request_for_some_of_the_same_records_is_another_attempt(make_request: JobMaker) -> None:
    first = carry_out_quietly(make_request([1, 2, 3], lr=1e-6, max_epochs=1)).evidence
    second = carry_out_quietly(make_request([2, 3, 6], lr=1e-6, max_epochs=1, seed=1)).evidence
    other = carry_out_quietly(make_request([4, 5], max_epochs=1)).evidence
    assert first is not None
    assert second is not None
    assert other is not None
    assert not first.achieved
    assert (first.request.attempt, first.attempts) == (1, [])
    assert second.request.attempt == 2
    assert [(a.seed, a.status, a.request, a.shared) for a in second.attempts] == [
        (0, first.status, 1, 2)
    ]
    assert any("attempt 2 (seed 1)" in reason for reason in second.verdict.reasons)
    assert other.request.attempt == 1
