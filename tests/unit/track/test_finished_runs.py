"""Finished runs are logged once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from expunge import InvalidInput
from expunge.track import MlflowTracker, TensorBoardTracker, Tracker, track_runs
from tests.unit.track.read import mlflow_curves, mlflow_runs, tensorboard_curves


def run(name: str, *values: float, **more: Any) -> dict[str, Any]:
    rows = [{"epoch": epoch, "ua": value} for epoch, value in enumerate(values, start=1)]
    return {"name": name, "params": {"seed": 0}, "tags": {}, "epochs": rows, **more}


RUNS = [run("a", 1.0, 2.0), run("b", 3.0, math.nan, 5.0, status="failed")]


def test_runs_are_logged_once_however_often_they_are_given(store: str, tmp_path: Path) -> None:
    for _ in range(2):
        for tracker in (MlflowTracker(store), TensorBoardTracker(tmp_path)):
            assert track_runs(iter(RUNS), tracker) == 2
    a, b = mlflow_runs(store)
    assert (a.info.status, b.info.status) == ("FINISHED", "FAILED")
    assert a.data.params == {"seed": "0"}
    assert mlflow_curves(store, a) == {"ua": [(1, 1.0), (2, 2.0)]}
    assert mlflow_curves(store, b) == {"ua": [(1, 3.0), (3, 5.0)]}
    assert b.data.tags["expunge.left_out"] == "1"
    assert tensorboard_curves(tmp_path / "a") == {"ua": [(1, 1.0), (2, 2.0)]}
    assert tensorboard_curves(tmp_path / "b") == {"ua": [(1, 3.0), (3, 5.0)]}


def test_a_logging_that_was_cut_short_is_completed(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(MlflowTracker, "finish", lambda self, status: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            track_runs(RUNS, MlflowTracker(store))
    track_runs(RUNS, MlflowTracker(store))
    assert [r.info.status for r in mlflow_runs(store)] == ["FINISHED", "FAILED"]
    assert mlflow_curves(store, mlflow_runs(store)[0]) == {"ua": [(1, 1.0), (2, 2.0)]}


def test_a_key_decides_which_run_it_is(store: str) -> None:
    tracker = MlflowTracker(store)
    for values in ((1.0,), (1.0, 2.0)):
        track_runs([run("a", *values, tags={"expunge.key": "k"})], tracker)
    (only,) = mlflow_runs(store)
    assert mlflow_curves(store, only) == {"ua": [(1, 1.0), (2, 2.0)]}


def test_without_a_key_other_results_are_another_run(store: str) -> None:
    tracker = MlflowTracker(store)
    for value in (1.0, 2.0):
        track_runs([run("a", value)], tracker)
    assert sorted(r.data.metrics["ua"] for r in mlflow_runs(store)) == [1.0, 2.0]


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ([{"epochs": []}], "should have a name"),
        ([run("a"), run("a")], "two are called 'a'"),
        ([run("a", status="done")], "`finished` or `failed`"),
        ([{"name": "a", "epochs": [{"ua": 1.0}]}], "rows with an `epoch` each"),
    ],
)
def test_malformed_runs_are_refused(
    runs: list[dict[str, Any]], message: str, tmp_path: Path
) -> None:
    tracker: Tracker = TensorBoardTracker(tmp_path)
    with pytest.raises(InvalidInput, match=message):
        track_runs(runs, tracker)
