"""Trackers by name, the error when one is not installed, and the examples of the document."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from expunge import InvalidInput
from expunge.track import TRACKERS, open_tracker
from tests.unit.track.read import mlflow_curves, mlflow_runs, tensorboard_curves

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "tracking.md"


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
