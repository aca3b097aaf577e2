from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.distributed.team import Team


@pytest.fixture(scope="session")
def pair() -> Iterator[Team]:
    """Two processes of one gloo group."""
    made = Team()
    yield made
    made.close()


@pytest.fixture(scope="module")
def trio() -> Iterator[Team]:
    """Three."""
    made = Team(3)
    yield made
    made.close()
