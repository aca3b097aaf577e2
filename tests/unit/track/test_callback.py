"""A run with the callback is the same run, and the tracker shows its rows; finished runs once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import expunge
from expunge import Callback, Diverged, InvalidInput, Result
from expunge.engine import Run
from expunge.track import MlflowTracker, TensorBoardTracker, Track, track_runs
from expunge.track._trackers import RunStatus, Value
from tests import tiny
from tests.tiny import Counting, bits, points, same, without_seconds
from tests.unit.track.read import (
    mlflow_curves,
    mlflow_runs,
    tensorboard_curves,
    tensorboard_text,
)

FORGET, RETAIN = points(24, features=64), points(60, seed=1, features=64)


def unlearn(*callbacks: Callback, **options: Any) -> Result:
    chosen: dict[str, Any] = {"epochs": 3, "batch_size": 12, "lr": 1e-2, "progress": False}
    return tiny.unlearn(
        Counting(features=64, classes=10),
        forget=FORGET,
        retain=RETAIN,
        callbacks=callbacks,
        **chosen | options,
    )


def finite_rows(history: expunge.History) -> dict[str, list[tuple[int, float]]]:
    """What a tracker should show."""
    curves: dict[str, list[tuple[int, float]]] = {}
    for row in history.epochs:
        for name, value in row.items():
            if name != "epoch" and math.isfinite(value):
                curves.setdefault(name, []).append((int(row["epoch"]), value))
    return curves


class Memory:
    """A tracker that remembers, and fails on request."""

    def __init__(self, failing: bool = False) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.failing = failing

    def start(self, name: str, params: Mapping[str, Value], tags: Mapping[str, str]) -> None:
        self.calls.append(("start", name, dict(params), dict(tags)))

    def log(self, values: Mapping[str, float], step: int) -> None:
        if self.failing:
            raise OSError("no route")
        self.calls.append(("log", step, dict(values)))

    def finish(self, status: RunStatus) -> None:
        self.calls.append(("finish", status))

    def of(self, kind: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == kind]


class Stop(Exception):
    """The end of a process, as far as a test can go."""


class StopAt(Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_step(self, run: Run) -> None:
        if run.epoch == self.epoch and run.step % run.steps_per_epoch:
            raise Stop


def test_both_trackers_show_the_rows_of_the_history(store: str, tmp_path: Path) -> None:
    result = unlearn(
        Track(f"mlflow:{store}", name="srl", params={"seed": 0, "lr": "mine"}),
        Track(f"tensorboard:{tmp_path}", name="srl"),
    )
    expected = finite_rows(result.history)
    assert {"seconds", "objective", "constraint", "feasible"} <= expected.keys()
    (run,) = mlflow_runs(store)
    assert run.info.status == "FINISHED"
    assert mlflow_curves(store, run) == expected
    assert run.data.params["seed"] == "0"
    assert run.data.params["lr"] == "mine"
    assert run.data.params["method"].startswith("RandomLabel(")
    assert run.data.params["epochs"] == "3"
    found = tensorboard_curves(tmp_path / "srl")
    assert found.keys() == expected.keys()
    for name, points_ in expected.items():  # TensorBoard keeps 32 bits
        assert [step for step, _ in found[name]] == [step for step, _ in points_]
        assert [v for _, v in found[name]] == pytest.approx([v for _, v in points_], rel=1e-6)


def test_the_run_is_the_same_with_and_without() -> None:
    plain, tracked = unlearn(), unlearn(Track(Memory()))
    assert same(bits(plain.model), bits(tracked.model))
    assert without_seconds(plain.history) == without_seconds(tracked.history)


def test_what_a_later_callback_records_is_logged_too(store: str) -> None:
    class Score(Callback):
        def on_epoch(self, run: Run) -> None:
            run.record(ua=float(run.epoch))

    unlearn(Track(MlflowTracker(store)), Score())
    (run,) = mlflow_runs(store)
    assert run.info.run_name == "SRL-FOCUS"
    assert mlflow_curves(store, run)["ua"] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_a_resumed_run_goes_on_in_its_tracker(store: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"checkpoint": tmp_path / "run.ckpt", "checkpoint_every": 1}
    folder = tmp_path / "SRL-FOCUS"
    with pytest.raises(Stop):
        unlearn(Track(f"mlflow:{store}"), Track(f"tensorboard:{tmp_path}"), StopAt(2), **options)
    (before,) = mlflow_runs(store)
    assert before.info.status == "FAILED"
    assert tensorboard_text(folder, "status") == "failed"
    assert [step for step, _ in mlflow_curves(store, before)["objective"]] == [1, 2]

    result = unlearn(Track(f"mlflow:{store}"), Track(f"tensorboard:{tmp_path}"), **options)
    (after,) = mlflow_runs(store)
    assert after.info.run_id == before.info.run_id
    assert after.info.status == "FINISHED"
    assert mlflow_curves(store, after) == finite_rows(result.history)
    assert [step for step, _ in tensorboard_curves(folder)["objective"]] == [1, 2, 3]
    assert tensorboard_text(folder, "status") == "finished"


def test_the_same_call_without_a_checkpoint_is_another_run() -> None:
    tracker = Memory()
    for key in (None, None, "mine"):
        unlearn(Track(tracker, key=key), epochs=1)
    keys = [tags["expunge.key"] for _, _, tags in tracker.of("start")]
    assert len(set(keys)) == 3
    assert keys[2] == "mine"


def test_divergence_is_a_failure(store: str, tmp_path: Path) -> None:
    with pytest.raises(Diverged):
        unlearn(
            Track(MlflowTracker(store)),
            Track(TensorBoardTracker(tmp_path), name="boom"),
            lr=1e38,
            addon="none",
        )
    (run,) = mlflow_runs(store)
    assert (run.info.status, run.data.metrics) == ("FAILED", {})
    assert tensorboard_text(tmp_path / "boom", "status") == "failed"


def test_a_run_inside_an_error_handler_is_not_taken_for_a_failure() -> None:
    tracker = Memory()
    try:
        raise KeyError
    except KeyError:
        unlearn(Track(tracker), epochs=1)
        with pytest.raises(Stop):
            unlearn(Track(tracker), StopAt(0), epochs=1)
    assert tracker.of("finish") == [("finished",), ("failed",)]


def test_a_tracker_that_fails_is_reported_once_and_the_run_goes_on() -> None:
    tracker = Memory(failing=True)
    with pytest.warns(UserWarning, match=r"the run continues\. \(OSError: no route\)") as caught:
        result = unlearn(Track(tracker))
    assert len(caught) == 1
    assert len(result.history.epochs) == 3
    assert tracker.of("finish") == [("finished",)]


def test_a_tracker_that_cannot_start_stops_the_run_before_its_first_step() -> None:
    class Closed(Memory):
        def start(self, name: str, params: Mapping[str, Value], tags: Mapping[str, str]) -> None:
            raise OSError("closed")

    tracker = Closed()
    with pytest.raises(OSError, match="closed"):
        unlearn(Track(tracker))
    assert tracker.calls == []


def finished(name: str, *values: float, **more: Any) -> dict[str, Any]:
    rows = [{"epoch": epoch, "ua": value} for epoch, value in enumerate(values, start=1)]
    return {"name": name, "params": {"seed": 0}, "tags": {}, "epochs": rows, **more}


RUNS = [finished("a", 1.0, 2.0), finished("b", 3.0, math.nan, 5.0, status="failed")]


def test_runs_are_logged_once_however_often_they_are_given(store: str, tmp_path: Path) -> None:
    for _ in range(2):
        for tracker in (MlflowTracker(store), TensorBoardTracker(tmp_path)):
            assert track_runs(iter(RUNS), tracker) == 2
    a, b = mlflow_runs(store)
    assert (a.info.status, b.info.status) == ("FINISHED", "FAILED")
    assert a.data.params == {"seed": "0"}
    assert mlflow_curves(store, a) == {"ua": [(1, 1.0), (2, 2.0)]}
    assert mlflow_curves(store, b) == {"ua": [(1, 3.0), (3, 5.0)]}
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
        track_runs([finished("a", *values, tags={"expunge.key": "k"})], tracker)
    (only,) = mlflow_runs(store)
    assert mlflow_curves(store, only) == {"ua": [(1, 1.0), (2, 2.0)]}


def test_without_a_key_other_results_are_another_run(store: str) -> None:
    tracker = MlflowTracker(store)
    for value in (1.0, 2.0):
        track_runs([finished("a", value)], tracker)
    assert sorted(r.data.metrics["ua"] for r in mlflow_runs(store)) == [1.0, 2.0]


@pytest.mark.parametrize(
    "runs",
    [
        [{"epochs": []}],
        [finished("a"), finished("a")],
        [{"name": "a", "epochs": [{"ua": 1.0}]}],
        [{"name": "a"}],
    ],
)
def test_malformed_runs_are_refused(runs: list[dict[str, Any]], tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="should have a name of its own"):
        track_runs(runs, TensorBoardTracker(tmp_path))
