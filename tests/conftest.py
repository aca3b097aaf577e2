"""What tests of several folders share."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile("steady", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("steady")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Sums depend on the number of threads: what is compared bit by bit is computed with one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
