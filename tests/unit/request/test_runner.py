"""The requester's own records in val and test are compared with nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from expunge._errors import DataError
from expunge.data import Examples
from expunge.request import Evidence
from expunge.request._run import forget
from expunge.request._verify import verify
from expunge.request.subject._load import make_subject
from tests.unit.request.worlds import fitted, floats, job_of

pytestmark = pytest.mark.usefixtures("no_figures")

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
    assert (with_own.request.unseen, without.request.unseen) == (4, 0)
    for name in ("margins", "checks", "metrics", "classes", "status"):
        assert getattr(with_own, name) == getattr(without, name), name
    assert with_own.hashes.weights_after == without.hashes.weights_after
    assert with_own.preflight.ids.unseen == 4
    assert any("in val or test: 4." in warning for warning in with_own.preflight.warnings)
    out, model = tmp_path / "with" / "out", fitted(floats(240, 1))
    assert all(each.ok for each in verify(out, model=model, data=data()))


def test_they_stay_out_of_later_requests(tmp_path: Path) -> None:
    request(tmp_path, data())
    second = request(tmp_path, data(), "carl")
    assert second.request.unseen == 4
    contents = [
        json.loads((tmp_path / f"out/{number}/forgotten.json").read_text())
        for number in ("0001", "0002")
    ]
    assert contents[0]["unseen"] == contents[1]["unseen"]
    assert len(contents[0]["unseen"]) == 4
    model = fitted(floats(240, 1))
    assert all(each.ok for each in verify(tmp_path / "out", model=model, data=data()))


def test_something_has_to_be_left_to_compare_with(tmp_path: Path) -> None:
    splits = data()
    subject = make_subject(fitted(splits[0]), splits, job_of(tmp_path))
    assert subject.without_unseen({"val": (), "test": ()}) is subject
    fewer = subject.without_unseen({"val": (0,), "test": ()})
    assert (len(fewer.val), len(fewer.test)) == (59, 80)
    assert fewer.data_digest == subject.data_digest
    assert torch.equal(fewer.val.inputs, subject.val.inputs[1:])
    with pytest.raises(DataError, match="All records of test belong to these ids"):
        subject.without_unseen({"val": (), "test": range(80)})
