from __future__ import annotations

import pytest

from expunge.request.subject._load import Subject
from tests.unit.request.worlds import subject_of


@pytest.fixture(scope="package")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    """The little world, with names."""
    return subject_of(tmp_path_factory.mktemp("world"), names=True)
