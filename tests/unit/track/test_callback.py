"""A run with the callback is the same run; real local stores show its rows, each once."""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import expunge
from expunge import Callback, Diverged, InvalidInput, Result, StorageError
from expunge.engine import Run
from expunge.track import TRACKERS, Track, open_tracker, track_runs
from expunge.track._callback import (
    MlflowTracker,
    RunStatus,
    TensorBoardTracker,
    WandbTracker,
    valid_name,
)
from tests import tiny
from tests.tiny import Counting, bits, points, same, without_seconds
from tests.unit.track.read import (
    mlflow_curves,
    mlflow_runs,
    tensorboard_curves,
    tensorboard_text,
    wandb_run,
)

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "tracking.md"
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

    def start(self, name: str, key: str, params: Mapping[str, Any]) -> int:
        self.calls.append(("start", name, key, dict(params)))
        return 0

    def log(self, values: Mapping[str, float], epoch: int) -> None:
        if self.failing:
            raise OSError("no route")
        self.calls.append(("log", epoch, dict(values)))

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


def test_all_trackers_show_the_rows_of_the_history(store: str, tmp_path: Path) -> None:
    result = unlearn(
        Track(f"mlflow:{store}", name="srl", params={"seed": 0, "lr": "mine"}),
        Track(f"tensorboard:{tmp_path}", name="srl"),
        Track(f"wandb:{tmp_path}", name="digits/srl", params={"seed": 0}, key="it's/one:run"),
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
    name, config, curves, code = wandb_run(tmp_path)
    assert (name, curves, code) == ("digits/srl", expected, 0)
    assert (config["seed"], config["expunge.key"]) == ("0", "it's/one:run")
    assert config["method"].startswith("RandomLabel(")
    assert not list(tmp_path.glob("wandb/*/files/*"))  # neither code, packages nor the machine


def test_the_run_is_the_same_with_and_without() -> None:
    plain, tracked = unlearn(), unlearn(Track(Memory()))
    assert same(bits(plain.model), bits(tracked.model))
    assert without_seconds(plain.history) == without_seconds(tracked.history)


class Score(Callback):
    def __init__(self, name: str) -> None:
        self.name = name

    def on_epoch(self, run: Run) -> None:
        run.record(**{self.name: float(run.epoch)})


def test_what_callbacks_before_and_after_it_record_is_logged(store: str) -> None:
    unlearn(Score("before"), Track(MlflowTracker(store)), Score("after"))
    (run,) = mlflow_runs(store)
    assert run.info.run_name == "SRL-FOCUS"
    for name in ("before", "after"):
        assert mlflow_curves(store, run)[name] == [(1, 1.0), (2, 2.0), (3, 3.0)]


def test_the_row_of_an_epoch_is_logged_at_the_next_step() -> None:
    tracker, seen = Memory(), []

    class Look(Callback):
        def on_step(self, run: Run) -> None:
            seen.append((run.step, len(tracker.of("log"))))

    unlearn(Track(tracker), Look())  # 2 steps per epoch
    assert seen == [(1, 0), (2, 0), (3, 1), (4, 1), (5, 2), (6, 2)]
    assert [epoch for epoch, _ in tracker.of("log")] == [1, 2, 3]


def test_a_run_inside_an_except_block_is_judged_by_its_own_errors() -> None:
    tracker = Memory()
    try:
        raise ValueError("of the caller")
    except ValueError:
        unlearn(Track(tracker))
        with pytest.raises(Stop):
            unlearn(Track(tracker), StopAt(1))
    assert tracker.of("finish") == [("finished",), ("failed",)]


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
    keys = [key for _, key, _ in tracker.of("start")]
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


def test_a_tracker_that_fails_is_reported_once_and_the_run_goes_on() -> None:
    tracker = Memory(failing=True)
    with pytest.warns(UserWarning, match=r"the run continues\. \(OSError: no route\)") as caught:
        result = unlearn(Track(tracker))
    assert len(caught) == 1
    assert len(result.history.epochs) == 3
    assert tracker.of("log") == []
    assert tracker.of("finish") == [("finished",)]


def test_an_mlflow_run_whose_values_were_lost_is_closed(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracker = MlflowTracker(store)

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(tracker._client, "log_batch", refuse)
    with pytest.warns(UserWarning, match="disk full"):
        unlearn(Track(tracker))
    (run,) = mlflow_runs(store)
    assert (run.info.status, run.data.metrics) == ("FINISHED", {})


def test_a_tracker_that_cannot_even_finish_is_reported_once() -> None:
    class Gone(Memory):
        def finish(self, status: RunStatus) -> None:
            raise OSError("gone")

    for tracker in (Gone(), Gone(failing=True)):
        with pytest.warns(UserWarning, match="OSError") as caught:
            unlearn(Track(tracker))
        assert len(caught) == 1


def test_a_tracker_that_cannot_start_stops_the_run_before_its_first_step() -> None:
    class Closed(Memory):
        def start(self, name: str, key: str, params: Mapping[str, Any]) -> int:
            raise OSError("closed")

    tracker = Closed()
    with pytest.raises(OSError, match="closed"):
        unlearn(Track(tracker))
    assert tracker.calls == []


def finished(name: str, *values: float, **more: Any) -> dict[str, Any]:
    rows = [{"epoch": epoch, "ua": value} for epoch, value in enumerate(values, start=1)]
    chosen = {"name": name, "key": name, "params": {"seed": 0}, "status": "finished"}
    return chosen | {"epochs": rows} | more


RUNS = [finished("a", 1.0, 2.0), finished("b", 3.0, math.nan, 5.0, status="failed")]


def test_runs_are_logged_once_however_often_they_are_given(store: str, tmp_path: Path) -> None:
    for _ in range(2):
        for tracker in (MlflowTracker(store), TensorBoardTracker(tmp_path)):
            track_runs(iter(RUNS), tracker)
        for run in RUNS:
            track_runs([run], WandbTracker(tmp_path / run["name"], project="digits"))
    a, b = mlflow_runs(store)
    assert (a.info.status, b.info.status) == ("FINISHED", "FAILED")
    assert a.data.params == {"seed": "0"}
    assert mlflow_curves(store, a) == {"ua": [(1, 1.0), (2, 2.0)]}
    assert mlflow_curves(store, b) == {"ua": [(1, 3.0), (3, 5.0)]}
    assert tensorboard_curves(tmp_path / "a") == {"ua": [(1, 1.0), (2, 2.0)]}
    assert tensorboard_curves(tmp_path / "b") == {"ua": [(1, 3.0), (3, 5.0)]}
    _, _, *first = wandb_run(tmp_path / "a")  # the second call has replaced it
    _, _, *second = wandb_run(tmp_path / "b")
    assert first == [{"ua": [(1, 1.0), (2, 2.0)]}, 0]
    assert second == [{"ua": [(1, 3.0), (3, 5.0)]}, 1]


def test_a_run_logged_again_gets_only_what_it_lacks(store: str) -> None:
    tracker = MlflowTracker(store)
    track_runs([finished("a", 1.0, status="failed")], tracker)
    track_runs([finished("a", 9.0, 2.0, params={"seed": 1, "lr": 0.5})], MlflowTracker(store))
    track_runs([finished("other", 7.0)], open_tracker(f"mlflow:{store}", experiment="more"))
    (only,) = mlflow_runs(store)
    assert only.info.status == "FINISHED"
    assert only.data.params == {"seed": "0", "lr": "0.5"}
    assert mlflow_curves(store, only) == {"ua": [(1, 1.0), (2, 2.0)]}
    (other,) = mlflow_runs(store, "more")
    assert other.data.metrics == {"ua": 7.0}


def test_names_are_made_valid(store: str) -> None:
    run = finished("it's", key="it's", params={"α=1!": 1, "x" * 300: 2})
    run["epochs"] = [{"epoch": 1, "UA %": 1.0, "../RA": 3.0, "y" * 300: 4.0, "inf": math.inf}]
    for _ in range(2):
        track_runs([run], MlflowTracker(store))
    (found,) = mlflow_runs(store)
    assert found.data.metrics == {"UA _": 1.0, "RA": 3.0, "y" * 250: 4.0}
    assert found.data.params == {"α_1_": "1", "x" * 250: "2"}


def test_w_and_b_resumes_a_run_online_after_its_last_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: dict[str, Any] = {}
    tracker = WandbTracker(tmp_path)
    answer = SimpleNamespace(init=lambda **o: asked.update(o) or SimpleNamespace(starting_step=4))
    monkeypatch.setattr(tracker, "_wandb", answer)  # stands in for a server
    monkeypatch.setenv("WANDB_MODE", "online")
    assert tracker.start("one", "key", {}) == 3
    assert (asked["mode"], asked["resume"]) == ("online", "allow")


def test_no_name_leads_out_of_the_folder() -> None:
    for name in ("a:b", "../a", "/a", "a/", "..", ""):
        folder = Path(valid_name(name))
        assert not folder.is_absolute()
        assert ".." not in folder.parts


def test_the_default_store_is_the_environments_or_a_local_database(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where `store` is: its `mlflow.db` has its tables already
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    track_runs([finished("one")], open_tracker("mlflow"))
    assert [run.info.run_name for run in mlflow_runs(store)] == ["one"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    assert MlflowTracker().store == store


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"mlflow:sqlite:///path/to/mlflow\.db"):
        open_tracker(f"mlflow:{tmp_path / 'mlruns'}")
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be looked into" * 20)
    with pytest.raises(InvalidInput, match="file is not a database"):
        open_tracker(f"mlflow:sqlite:///{tmp_path / 'notes.txt'}")
    with pytest.raises(StorageError, match="Cannot write"):
        TensorBoardTracker(tmp_path / "notes.txt").start("one", "one", {})
    with pytest.raises(StorageError, match="Cannot write"):
        WandbTracker(tmp_path / "notes.txt").start("one", "one", {})
    with pytest.raises(InvalidInput, match=r"Unknown tracker 'mlfow'\. Did you mean 'mlflow'"):
        open_tracker("mlfow:sqlite:///x.db")
    assert list(TRACKERS) == ["mlflow", "tensorboard", "wandb"]


def test_tensorboard_shows_values_while_the_run_lasts_and_replaces_an_earlier_one(
    tmp_path: Path,
) -> None:
    other = tmp_path / "digits" / "one" / "events.out.tfevents.0.someone-elses"
    other.parent.mkdir(parents=True)
    other.touch()
    for last in (2, 3):  # the first is left open, as if killed
        tracker = TensorBoardTracker(tmp_path)
        tracker.start("digits/one", "key", {"lr": 0.1})
        for epoch in range(1, last + 1):
            tracker.log({"x": float(epoch)}, epoch)
    assert tensorboard_curves(other.parent) == {"x": [(1, 1), (2, 2), (3, 3)]}
    assert "| lr | 0.1 |" in tensorboard_text(other.parent, "params")
    assert other.exists()


@pytest.mark.parametrize(
    ("spec", "missing"),
    [
        ("mlflow", "mlflow"),
        ("mlflow", "sqlalchemy"),
        ("tensorboard:runs", "tensorboard"),
        ("wandb", "wandb"),
    ],
)
def test_a_missing_package_is_named_with_its_extra(
    spec: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    extra = spec.partition(":")[0]
    with pytest.raises(InvalidInput) as caught:
        open_tracker(spec)
    assert missing in str(caught.value)
    assert f"pip install 'expunge[{extra}]'" in str(caught.value)


def test_the_examples_of_the_document_run(
    empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tracked").mkdir()
    shutil.copy(empty_database, "tracked/mlflow.db")
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL):
        exec(compile(code, PAGE.name, "exec"), names)
    store = "sqlite:///tracked/mlflow.db"
    (live,) = mlflow_runs(store)
    assert [step for step, _ in mlflow_curves(store, live)["objective"]] == [1, 2, 3]
    assert len(tensorboard_curves(Path("tracked/events/digits-srl"))["objective"]) == 3
    assert len(wandb_run(Path("tracked"))[2]["objective"]) == 3
    (finished,) = mlflow_runs(store, "benchmark")
    assert mlflow_curves(store, finished) == {"ua": [(1, 97.2), (2, 96.8)]}
