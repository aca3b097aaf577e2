"""Real stores: an MLflow database, and a reader of TensorBoard's files."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from expunge.track._callback import MlflowTracker

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # before the readers import MLflow


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made once: MLflow takes seconds to lay its tables out."""
    path = tmp_path_factory.mktemp("mlflow") / "deep" / "empty.db"
    MlflowTracker(f"sqlite:///{path}")
    return path


@pytest.fixture
def store(empty_database: Path, tmp_path: Path) -> str:
    """The address of a database of one's own."""
    return f"sqlite:///{shutil.copy(empty_database, tmp_path / 'mlflow.db')}"
