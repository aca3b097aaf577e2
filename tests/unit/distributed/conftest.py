from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.unit.distributed.pair import Pair


@pytest.fixture(scope="session")
def pair() -> Iterator[Pair]:
    """Two processes of one gloo group."""
    made = Pair()
    yield made
    made.close()
