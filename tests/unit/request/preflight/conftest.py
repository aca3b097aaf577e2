from __future__ import annotations

import pytest

from expunge.request.loading._load import ModelAndData
from tests.unit.request.worlds import loaded_world


@pytest.fixture(scope="package")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> ModelAndData:
    """The little world, with names."""
    return loaded_world(tmp_path_factory.mktemp("world"), names=True)
