"""MLflow shows each run once, with every finite value once, in a real local store."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from expunge import InvalidInput
from expunge.track import MlflowTracker, open_tracker
from expunge.track import _mlflow as module
from tests.unit.track.read import mlflow_curves, mlflow_runs

TAGS = {"expunge.key": "k1"}


def test_what_is_logged_is_what_mlflow_finds(store: str) -> None:
    tracker = open_tracker(f"mlflow:{store}")
    tracker.start("one", {"lr": 0.1, "strict": False, "seed": 3, "note": None}, {"suite": "a"})
    tracker.log({"ua": 97.25, "ra": 1.0}, 1)
    tracker.log({"ua": 96.5}, 2)
    tracker.finish("finished")

    (run,) = mlflow_runs(store)
    assert (run.info.run_name, run.info.status) == ("one", "FINISHED")
    assert run.data.params == {"lr": "0.1", "strict": "False", "seed": "3", "note": "None"}
    assert run.data.tags["suite"] == "a"
    assert run.data.tags["expunge.key"] == "one"
    assert mlflow_curves(store, run) == {"ua": [(1, 97.25), (2, 96.5)], "ra": [(1, 1.0)]}


def test_a_run_logged_again_gets_only_what_it_lacks(store: str) -> None:
    first = MlflowTracker(store)
    first.start("one", {"epochs": 1}, TAGS)
    first.log({"ua": 1.0}, 1)
    first.finish("failed")
    (before,) = mlflow_runs(store)
    assert before.info.status == "FAILED"

    again = MlflowTracker(store)
    again.start("one", {"epochs": 2, "lr": 0.5}, {**TAGS, "host": "b"})
    assert mlflow_runs(store)[0].info.status == "RUNNING"
    again.log({"ua": 9.0, "ra": 7.0}, 1)
    again.log({"ua": 2.0}, 2)
    again.log({"ua": 3.0}, 2)
    again.finish("finished")

    (after,) = mlflow_runs(store)
    assert after.info.run_id == before.info.run_id
    assert after.info.status == "FINISHED"
    assert after.data.params == {"epochs": "1", "lr": "0.5"}
    assert after.data.tags["host"] == "b"
    assert mlflow_curves(store, after) == {"ua": [(1, 1.0), (2, 2.0)], "ra": [(1, 7.0)]}


def test_runs_of_other_keys_experiments_and_trackers_stay_apart(store: str) -> None:
    one, two = MlflowTracker(store), MlflowTracker(store)
    other = open_tracker(f"mlflow:{store}", experiment="other")
    for tracker, key in ((one, "k1"), (two, "k2"), (other, "k1")):
        tracker.start("same name", {}, {"expunge.key": key})
    for value, tracker in enumerate((one, two, other)):
        tracker.log({"x": value}, 1)
    for tracker in (two, other, one):
        tracker.finish("finished")

    found = {run.data.tags["expunge.key"]: run.data.metrics for run in mlflow_runs(store)}
    assert found == {"k1": {"x": 0}, "k2": {"x": 1}}
    assert [run.data.metrics for run in mlflow_runs(store, "other")] == [{"x": 2}]


def test_values_that_are_not_finite_are_left_out_and_counted(store: str) -> None:
    tracker = MlflowTracker(store)
    for _ in range(2):  # not counted twice
        tracker.start("one", {}, TAGS)
        for _ in range(2):
            tracker.log({"a": math.nan, "b": math.inf, "c": -math.inf, "d": 4.0}, 1)
        assert tracker.left_out == 3
        tracker.finish("finished")
    (run,) = mlflow_runs(store)
    assert run.data.metrics == {"d": 4.0}
    assert run.data.tags["expunge.left_out"] == "3"


def test_keys_are_made_valid_and_stay_different(store: str) -> None:
    tracker = MlflowTracker(store)
    for _ in range(2):
        tracker.start("one", {"α=1!": 1, "x" * 300: 2}, {**TAGS, "a,b": "c"})
        tracker.log({"UA %": 1.0, "UA $": 2.0, "../RA": 3.0, "y" * 300: 4.0}, 1)
        tracker.finish("finished")
    (run,) = mlflow_runs(store)
    assert run.data.metrics == {"UA__": 1.0, "UA___2": 2.0, "RA": 3.0, "y" * 250: 4.0}
    assert run.data.params == {"α_1_": "1", "x" * 250: "2"}
    assert run.data.tags["a_b"] == "c"


def test_more_than_mlflow_takes_at_once_is_split(store: str) -> None:
    tracker = MlflowTracker(store)
    tracker.start("one", {f"p{i}": i for i in range(250)}, {})
    tracker.log({f"m{i}": float(i) for i in range(2100)}, 1)
    tracker.finish("finished")
    (run,) = mlflow_runs(store)
    assert len(run.data.params) == 250
    assert run.data.metrics == {f"m{i}": float(i) for i in range(2100)}


def test_a_slow_run_is_seen_while_it_lasts(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAIT", 0.0)
    tracker = MlflowTracker(store)
    tracker.start("one", {}, {})
    tracker.log({"ua": 1.0}, 1)
    (run,) = mlflow_runs(store)
    assert (run.info.status, run.data.metrics) == ("RUNNING", {"ua": 1.0})
    tracker.finish("finished")


def test_the_default_store_is_the_environments_or_a_local_database(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where `store` is: its `mlflow.db` has its tables already
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tracker = open_tracker("mlflow")
    tracker.start("one", {}, {})
    tracker.finish("finished")
    assert [run.info.run_name for run in mlflow_runs(store)] == ["one"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    assert MlflowTracker().store == store


def test_errors_say_what_to_do(store: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"mlflow:sqlite:///path/to/mlflow\.db"):
        open_tracker(f"mlflow:{tmp_path / 'mlruns'}")
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be looked into" * 20)
    with pytest.raises(InvalidInput, match="file is not a database"):
        open_tracker(f"mlflow:sqlite:///{tmp_path / 'notes.txt'}")
    tracker = MlflowTracker(store)
    with pytest.raises(InvalidInput, match="Start a run"):
        tracker.log({"x": 1.0}, 1)
    with pytest.raises(InvalidInput, match="no quotes"):
        tracker.start("it's", {}, {})
