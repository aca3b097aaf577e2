"""What tests of several folders share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("steady", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("steady")

# Processes that tests start: two threads each make a busy machine many times slower.
os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Sums depend on the number of threads: what is compared bit by bit is computed with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
