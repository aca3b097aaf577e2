"""Trackers by name, and what is said when one is not there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from expunge import InvalidInput
from expunge.track import TRACKERS, open_tracker


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


def test_importing_the_package_imports_no_tracker() -> None:
    code = "import sys, expunge.track; print({'mlflow', 'tensorboard'} & set(sys.modules))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "set()"
