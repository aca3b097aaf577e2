"""Fixtures that tests of several folders share."""

from __future__ import annotations

import getpass
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
# Compile in this process: torch would start others for it, which import torch first.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")

TOGETHER = (
    ("tests/unit/request/",),  # a trained net, and requests made of it
    ("tests/unit/ledger/",),  # the same
    (  # two processes of a group
        "tests/contract/test_process",
        "tests/contract/test_trainer_processes.py",
        "tests/unit/distributed/",
        "tests/unit/update/test_shards.py",
    ),
    (  # compiled kernels
        "tests/contract/test_addons.py",
        "tests/reference/",
        "tests/unit/update/test_stochastic_rounding.py",
    ),
    ("tests/unit/report/",),  # a browser
    ("tests/unit/cli/",),  # a trained net
    ("tests/unit/bench/",),  # a benchmark that was run
    ("tests/unit/dispatch/",),  # worker processes
    ("tests/unit/track/",),  # a database
    ("tests/unit/test_examples.py",),
    ("tests/unit/test_plugins.py",),
)
"""Tests that share what takes long to make, and so a worker, and other long files: these first.

A fixture of a package or a session is made anew in each worker, and that of a package also each
time that a worker comes back to it.
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes long comes first, so that workers end at about the same time."""
    items.sort(key=lambda item: _group(item.nodeid))


def _group(nodeid: str) -> int:
    return next((k for k, paths in enumerate(TOGETHER) if nodeid.startswith(paths)), len(TOGETHER))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """By file, as ``--dist loadfile`` does, but for what belongs together."""
    from xdist.scheduler import LoadFileScheduling

    class ByGroup(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            group = _group(nodeid)
            return TOGETHER[group][0] if group < len(TOGETHER) else super()._split_scope(nodeid)

    config.option.loadscopereorder = False  # the order is that of collection
    return ByGroup(config, log)


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
