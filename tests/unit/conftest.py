"""What all unit tests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests use neither the user's cache, where attempts are listed, nor the user's id key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPUNGE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("EXPUNGE_ID_KEY", str(tmp_path_factory.mktemp("config") / "id.key"))
        yield
