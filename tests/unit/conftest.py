"""What all unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests neither read nor write the user's cache: a journal of attempts is kept there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPUNGE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield
