"""One set of workers for all tests of this folder: starting one takes seconds of imports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from expunge.dispatch import LocalEngine
from expunge.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalEngine]:
    """Two workers on a store of their own (``engine.store``)."""
    engine = LocalEngine(Store(tmp_path_factory.mktemp("shared") / "store"), workers=2)
    yield engine
    engine.close()
