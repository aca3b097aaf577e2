"""TensorBoard's files hold the last run of each name, and nothing twice."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from expunge import InvalidInput, StorageError
from expunge.track import TensorBoardTracker, open_tracker
from expunge.track._tensorboard import run_folder
from tests.unit.track.read import tensorboard_curves, tensorboard_text


def test_what_is_logged_is_what_tensorboard_finds(tmp_path: Path) -> None:
    tracker = open_tracker(f"tensorboard:{tmp_path}")
    tracker.start("digits/SRL-FOCUS", {"lr": 0.1}, {"suite": "a"})
    tracker.log({"ua": 97.25, "RA %": 1.0}, 1)
    tracker.log({"ua": 96.5}, 2)
    tracker.finish("failed")
    folder = tmp_path / "digits" / "SRL-FOCUS"
    assert tensorboard_curves(folder) == {"ua": [(1, 97.25), (2, 96.5)], "RA__": [(1, 1.0)]}
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


def test_values_that_are_not_finite_are_left_out_and_counted(tmp_path: Path) -> None:
    tracker = TensorBoardTracker(tmp_path)
    tracker.start("one", {}, {})
    tracker.log({"a": math.nan, "b": math.inf, "d": 4.0}, 1)
    assert tracker.left_out == 2
    tracker.finish("finished")
    assert tensorboard_curves(tmp_path / "one") == {"d": [(1, 4.0)]}


def test_no_name_leads_out_of_the_folder_or_into_anothers() -> None:
    names = ["a:b", "a_b", "a?b", "../a", "/a", "a", "a/", "..", ""]
    folders = [run_folder(name) for name in names]
    assert len(set(folders)) == len(names)
    assert not any(folder.is_absolute() or ".." in folder.parts for folder in folders)


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    tracker = TensorBoardTracker(tmp_path / "file")
    with pytest.raises(InvalidInput, match="Start a run"):
        tracker.log({"x": 1.0}, 1)
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="Cannot write"):
        tracker.start("one", {}, {})
