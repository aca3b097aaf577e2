"""A small net that knows some digits by heart, and requests made of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from expunge.engine import Recipe
from expunge.evaluation._file_jobs import train_initial
from expunge.request.loading._load import ModelAndData
from tests.unit.request.jobs import IDS, REFRESH, FinishedRequest, JobMaker, carry_out_quietly
from tests.unit.request.worlds import loaded_world


@pytest.fixture(scope="package", autouse=True)
def _one_thread() -> Iterator[None]:
    """Sums depend on the number of threads, and requests are compared bit by bit."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small net that knows 120 digits by heart."""
    path = tmp_path_factory.mktemp("model") / "initial.safetensors"
    recipe = Recipe(epochs=30, batch_size=32, lr=0.05, schedule="one-cycle")
    train_initial("digits", path, width=0.25, recipe=recipe, limit=120, device="cpu")
    return path


@pytest.fixture
def make_request(weights: Path, tmp_path: Path) -> JobMaker:
    """Jobs on that net, all with the same folder."""
    return JobMaker(weights, tmp_path)


@pytest.fixture(scope="package")
def finished(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> FinishedRequest:
    """A request by the default method. Read it, but leave it as it is."""
    make_request = JobMaker(weights, tmp_path_factory.mktemp("finished"))
    job = make_request(IDS, **REFRESH)
    return FinishedRequest.of(job, carry_out_quietly(job))


@pytest.fixture(scope="package")
def two_requests(weights: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two requests in a row. Copy it before you change it."""
    make_request = JobMaker(weights, tmp_path_factory.mktemp("two"))
    carry_out_quietly(make_request([1, 2, 3], **REFRESH))
    carry_out_quietly(make_request([7, 8, 8], **REFRESH))  # the preflight warns: 8 is listed twice
    return make_request.out


@pytest.fixture(scope="package")
def named(tmp_path_factory: pytest.TempPathFactory) -> ModelAndData:
    """Training records are called 1/0.png to 1/239.png, val 2/…, test 3/…."""
    return loaded_world(tmp_path_factory.mktemp("named"), names=True)


@pytest.fixture(scope="package")
def bare(tmp_path_factory: pytest.TempPathFactory) -> ModelAndData:
    """The same records without names."""
    return loaded_world(tmp_path_factory.mktemp("bare"))
