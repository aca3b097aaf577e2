"""The requester's own records in val and test; and what is left of a request that was killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from expunge._errors import DataError, InvalidInput
from expunge.data import Examples
from expunge.request import Evidence
from expunge.request import _runner as runner
from expunge.request._run import forget
from expunge.request._runner import WorkFolder
from expunge.request._verify import verify
from expunge.request.loading._load import model_and_data_of
from tests.unit.request.jobs import FinishedRequest, JobMaker, carry_out_quietly
from tests.unit.request.worlds import fitted, floats, job_of

ANN = ["1/4.png", "1/9.png", "1/30.png"]
OWN = {"val": [2, 3, 5], "test": [7]}
"""Where her other records are."""


def data(*, with_own: bool = True) -> tuple[Examples, Examples, Examples]:
    """Train, val and test; her records of val and test are unlike any other, or are not there."""
    train, val, test = (floats(n, seed, names=True) for n, seed in ((240, 1), (60, 2), (80, 3)))
    parts = []
    for part, own in ((val, OWN["val"]), (test, OWN["test"])):
        part.inputs[own] = 1 - part.inputs[own]
        kept = [k for k in range(len(part)) if with_own or k not in own]
        parts.append(part.subset(kept))
    return train, *parts


def request(folder: Path, splits: Any, person: str = "ann", **settings: Any) -> Evidence:
    table = ["name,person"]
    for part in splits:
        for name in part.names:
            seed, index = name.removesuffix(".png").split("/")
            split = {"2": "val", "3": "test"}.get(seed, "train")
            own = name in ANN if split == "train" else int(index) in OWN[split]
            other = "carl" if name in ("1/50.png", "1/51.png") else "bob"
            table.append(f"{name},{'ann' if own else other}")
    folder.mkdir(exist_ok=True)
    (folder / "people.csv").write_text("\n".join(table))
    outcome = forget(
        model=fitted(floats(240, 1)),
        data=splits,
        ids=[person],
        records=folder / "people.csv",
        id_column="person",
        out=folder / "out",
        method="SRL",
        max_epochs=2,
        progress=False,
        **settings,
    )
    assert outcome.evidence is not None
    return outcome.evidence


def test_own_records_decide_nothing(tmp_path: Path) -> None:
    """Everything is as if they were not there, and the evidence says how many they are."""
    with_own = request(tmp_path / "with", data())
    without = request(tmp_path / "without", data(with_own=False))
    assert (with_own.request.left_out, without.request.left_out) == (4, 0)
    for name in ("margins", "checks", "metrics", "classes", "status"):
        assert getattr(with_own, name) == getattr(without, name), name
    assert with_own.hashes.weights_after == without.hashes.weights_after
    assert with_own.preflight.ids.left_out == 4
    assert any("in val or test: 4." in warning for warning in with_own.preflight.warnings)
    out, model = tmp_path / "with" / "out", fitted(floats(240, 1))
    assert all(each.ok for each in verify(out, model=model, data=data()))


def test_they_stay_out_of_later_requests(tmp_path: Path) -> None:
    request(tmp_path, data())
    second = request(tmp_path, data(), "carl")
    assert second.request.left_out == 4
    contents = [
        json.loads((tmp_path / f"out/{number}/forgotten.json").read_text())
        for number in ("0001", "0002")
    ]
    assert contents[0]["left_out"] == contents[1]["left_out"]
    assert len(contents[0]["left_out"]) == 4
    model = fitted(floats(240, 1))
    assert all(each.ok for each in verify(tmp_path / "out", model=model, data=data()))


def test_something_has_to_be_left_to_compare_with(tmp_path: Path) -> None:
    splits = data()
    loaded = model_and_data_of(fitted(splits[0]), splits, job_of(tmp_path))
    assert loaded.leaving_out({"val": (), "test": ()}) is loaded
    fewer = loaded.leaving_out({"val": (0,), "test": ()})
    assert (len(fewer.val), len(fewer.test)) == (59, 80)
    assert fewer.data_digest == loaded.data_digest
    assert torch.equal(fewer.val.inputs, loaded.val.inputs[1:])
    with pytest.raises(DataError, match="All records of test belong to these ids"):
        loaded.leaving_out({"val": (), "test": range(80)})


def test_a_model_that_does_not_fit_is_refused_for_that_reason_alone(tmp_path: Path) -> None:
    order = torch.tensor([1, 0, 3, 2])
    permuted = [Examples(part.inputs, order[part.labels], part.classes) for part in data()]
    with pytest.raises(DataError, match="fit the data: The labels look permuted") as refusal:
        forget(model=fitted(floats(240, 1)), data=permuted, ids=[1], out=tmp_path, progress=False)
    assert "It is not known how" not in str(refusal.value), "a warning about something else"


def test_it_is_one_requests_until_it_is_discarded(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path)
    assert work.claimed_by is None
    work.claim("one", discard=False)
    work.claim("one", discard=False)
    assert work.claimed_by == "one"
    with pytest.raises(InvalidInput, match=r"is not finished.*--discard"):
        work.claim("two", discard=False)
    work.claim("two", discard=True)
    assert work.claimed_by == "two"


def test_a_run_that_was_refused_leaves_it_only_with_something_to_resume(tmp_path: Path) -> None:
    work = WorkFolder(tmp_path)
    for started in (False, True):
        work.claim("one", discard=False)
        if started:
            work.checkpoint.write_text("weights")
        with pytest.raises(DataError), work.kept_only_if_started():
            raise DataError("It was refused.")
        assert work.path.exists() == started


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
