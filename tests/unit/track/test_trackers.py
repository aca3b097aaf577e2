"""Both trackers show each run once, with every finite value once, in real local stores."""

from __future__ import annotations

import math
import re
import shutil
import sys
from pathlib import Path

import pytest

from expunge import InvalidInput, StorageError
from expunge.track import TRACKERS, MlflowTracker, TensorBoardTracker, open_tracker
from expunge.track._trackers import valid_name
from tests.unit.track.read import (
    mlflow_curves,
    mlflow_runs,
    tensorboard_curves,
    tensorboard_text,
)

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "tracking.md"
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


def test_mlflow_gets_no_values_that_are_not_finite(store: str) -> None:
    tracker = MlflowTracker(store)
    for _ in range(2):
        tracker.start("one", {}, TAGS)
        for _ in range(2):
            tracker.log({"a": math.nan, "b": math.inf, "c": -math.inf, "d": 4.0}, 1)
        tracker.finish("finished")
    (run,) = mlflow_runs(store)
    assert run.data.metrics == {"d": 4.0}


def test_keys_are_made_valid(store: str) -> None:
    tracker = MlflowTracker(store)
    for _ in range(2):
        tracker.start("one", {"α=1!": 1, "x" * 300: 2}, {**TAGS, "a,b": "c"})
        tracker.log({"UA %": 1.0, "../RA": 3.0, "y" * 300: 4.0}, 1)
        tracker.finish("finished")
    (run,) = mlflow_runs(store)
    assert run.data.metrics == {"UA _": 1.0, "RA": 3.0, "y" * 250: 4.0}
    assert run.data.params == {"α_1_": "1", "x" * 250: "2"}
    assert run.data.tags["a_b"] == "c"


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


def test_errors_of_mlflow_say_what_to_do(store: str, tmp_path: Path) -> None:
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


def test_what_is_logged_is_what_tensorboard_finds(tmp_path: Path) -> None:
    tracker = open_tracker(f"tensorboard:{tmp_path}")
    tracker.start("digits/SRL-FOCUS", {"lr": 0.1}, {"suite": "a"})
    tracker.log({"ua": 97.25, "RA %": 1.0}, 1)
    tracker.log({"ua": 96.5}, 2)
    tracker.finish("failed")
    folder = tmp_path / "digits" / "SRL-FOCUS"
    assert tensorboard_curves(folder) == {"ua": [(1, 97.25), (2, 96.5)], "RA _": [(1, 1.0)]}
    assert "| lr | 0.1 |" in tensorboard_text(folder, "params")
    assert "| suite | a |" in tensorboard_text(folder, "tags")
    assert tensorboard_text(folder, "status") == "failed"


def test_values_are_seen_while_the_run_lasts(tmp_path: Path) -> None:
    tracker = TensorBoardTracker(tmp_path)
    tracker.start("one", {}, {})
    tracker.log({"ua": 1.0}, 1)
    assert tensorboard_curves(tmp_path / "one") == {"ua": [(1, 1.0)]}
    tracker.finish("finished")


def test_a_run_logged_again_replaces_the_first(tmp_path: Path) -> None:
    other = tmp_path / "one" / "events.out.tfevents.0.someone-elses"
    other.parent.mkdir()
    other.touch()
    for last in (2, 3):  # the first is left open, as if killed
        tracker = TensorBoardTracker(tmp_path)
        tracker.start("one", {}, {})
        for step in range(1, last + 1):
            tracker.log({"x": float(step)}, step)
            tracker.log({"x": -1.0}, step)
    assert tensorboard_curves(tmp_path / "one") == {"x": [(1, 1), (2, 2), (3, 3)]}
    assert other.exists()
    tracker.start("two", {}, {})
    tracker.finish("finished")


def test_tensorboard_gets_no_values_that_are_not_finite(tmp_path: Path) -> None:
    tracker = TensorBoardTracker(tmp_path)
    tracker.start("one", {}, {})
    tracker.log({"a": math.nan, "b": math.inf, "d": 4.0}, 1)
    tracker.finish("finished")
    assert tensorboard_curves(tmp_path / "one") == {"d": [(1, 4.0)]}


def test_no_name_leads_out_of_the_folder() -> None:
    for name in ("a:b", "../a", "/a", "a/", "..", ""):
        folder = Path(valid_name(name))
        assert not folder.is_absolute()
        assert ".." not in folder.parts


def test_errors_of_tensorboard_say_what_to_do(tmp_path: Path) -> None:
    tracker = TensorBoardTracker(tmp_path / "file")
    with pytest.raises(InvalidInput, match="Start a run"):
        tracker.log({"x": 1.0}, 1)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Cannot write"):
        tracker.start("one", {}, {})


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(InvalidInput, match=r"Unknown tracker 'mlfow'\. Did you mean 'mlflow'"):
        open_tracker("mlfow:sqlite:///x.db")
    assert list(TRACKERS) == ["mlflow", "tensorboard"]


@pytest.mark.parametrize(
    ("spec", "missing"),
    [("mlflow", "mlflow"), ("mlflow", "sqlalchemy"), ("tensorboard:runs", "tensorboard")],
)
def test_a_missing_package_is_named_with_its_extra(
    spec: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    extra = spec.partition(":")[0]
    with pytest.raises(InvalidInput) as caught:
        open_tracker(spec)
    assert f"cannot import {missing}" in str(caught.value)
    assert f"pip install 'expunge[{extra}]'" in str(caught.value)


def test_the_examples_of_the_document_run(
    empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tracked").mkdir()
    shutil.copy(empty_database, "tracked/mlflow.db")
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(code, PAGE.name, "exec"), {})
    store = "sqlite:///tracked/mlflow.db"
    (live,) = mlflow_runs(store)
    assert [step for step, _ in mlflow_curves(store, live)["objective"]] == [1, 2, 3]
    assert len(tensorboard_curves(Path("tracked/events/digits-srl"))["objective"]) == 3
    (finished,) = mlflow_runs(store, "benchmark")
    assert mlflow_curves(store, finished) == {"ua": [(1, 97.2), (2, 96.8)]}
