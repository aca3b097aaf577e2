"""The document's examples run, and do what it says."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests.unit.track.read import mlflow_curves, mlflow_runs, tensorboard_curves

PAGE = Path(__file__).parents[3] / "docs" / "tracking.md"


def test_the_examples_run(
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
