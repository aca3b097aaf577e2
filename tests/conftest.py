"""Fixtures that tests of several folders share."""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest
import torch

from tests.team import Team

hypothesis.settings.register_profile("steady", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("steady")

# Torch's cache of compiled code does not tell instruction sets apart.
if capability := os.environ.get("ATEN_CPU_CAPABILITY"):
    folder = f"torchinductor-{getpass.getuser()}-{capability}"
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir()) / folder))

# Processes that tests start: two threads each make a busy machine many times slower.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tests use neither the user's cache, where attempts are listed, nor the user's id key."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXPUNGE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("EXPUNGE_ID_KEY", str(tmp_path_factory.mktemp("config") / "id.key"))
        yield


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Sums depend on the number of threads: what is compared bit by bit is computed with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def pair() -> Iterator[Team]:
    """Two processes of one gloo group."""
    team = Team()
    yield team
    team.close()


@pytest.fixture(scope="module")
def trio() -> Iterator[Team]:
    """Three processes of one gloo group."""
    team = Team(3)
    yield team
    team.close()
