"""A tiny protocol, planned and carried out once."""

from __future__ import annotations

import pytest
import torch

from expunge.bench._protocol_file import load_protocol
from expunge.bench._results import BenchRun
from expunge.bench._run import run_planned
from expunge.bench._stages import plan
from expunge.dispatch import InlineEngine
from expunge.store import Store
from tests.unit.bench.tiny_protocol import write_tiny
from tests.unit.report.conftest import browser as browser
from tests.unit.report.conftest import pages as pages


@pytest.fixture(scope="session")
def planned(tmp_path_factory: pytest.TempPathFactory) -> list[BenchRun]:
    """The runs of the tiny protocol."""
    path = write_tiny(tmp_path_factory.mktemp("protocol"))
    return plan(load_protocol(path), device="cpu")


@pytest.fixture(scope="session")
def done(planned: list[BenchRun], tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store with all their stages, computed with one thread. Tests only read it."""
    store = Store(tmp_path_factory.mktemp("bench") / "store")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    run_planned(planned, store, engine=InlineEngine(store)).check()
    torch.set_num_threads(threads)
    return store
