"""What is left of a request that was killed, and whose it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from expunge._errors import DataError, InvalidInput
from expunge.request import _runner as runner
from expunge.request._work_folder import WorkFolder
from tests.unit.request.jobs import FinishedRequest, JobMaker, carry_out_quietly


def test_it_is_one_requests_until_it_is_discarded(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path)
    assert work.request is None
    work.claim("one", discard=False)
    work.claim("one", discard=False)
    assert work.request == "one"
    with pytest.raises(InvalidInput, match=r"is not finished.*--discard"):
        work.claim("two", discard=False)
    work.claim("two", discard=True)
    assert work.request == "two"


def test_a_run_that_was_refused_leaves_it_only_with_something_to_resume(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path)
    for started in (False, True):
        work.claim("one", discard=False)
        if started:
            work.checkpoint.write_text("weights")
        with pytest.raises(DataError), work.kept_only_if_started():
            raise DataError("It was refused.")
        assert work.path.exists() == started


@pytest.mark.usefixtures("no_figures")
def test_a_command_killed_after_its_bundle_was_there_has_nothing_left_to_do(
    make_request: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any) -> None:
        raise KeyboardInterrupt

    first = make_request([1, 2, 3], max_epochs=1)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "write_ledger_head", dies)
        with pytest.raises(KeyboardInterrupt):
            carry_out_quietly(first)
    bundle = first.out / "0001"
    seal = (bundle / "evidence.sha256").read_bytes()
    assert (first.out / ".work").exists()

    # The same command reports what there is, and tidies up.
    said: list[str] = []
    again = FinishedRequest.of(first, carry_out_quietly(first, on_message=said.append))
    assert "Request 1 was complete when its command was killed." in said
    assert again.folder == bundle
    assert again.evidence.as_json() == json.loads((bundle / "evidence.json").read_text())
    assert again.outcome.model is not None
    assert (bundle / "evidence.sha256").read_bytes() == seal
    assert sorted(path.name for path in first.out.iterdir()) == ["0001", "head.json"]

    # Another one is not held up by what was left.
    monkeypatch.setattr(runner, "write_ledger_head", dies)
    second = make_request([7, 8], max_epochs=1)
    with pytest.raises(KeyboardInterrupt):
        carry_out_quietly(second)
    monkeypatch.undo()
    third = carry_out_quietly(make_request([9], max_epochs=1, seed=1))
    assert third.folder == first.out / "0003"
