"""Sharded over two real processes, the update is what it is in one."""

from __future__ import annotations

import pytest
import torch

from tests.team import Team

fsdp = pytest.importorskip("torch.distributed.fsdp")
if not (torch.distributed.is_available() and hasattr(fsdp, "fully_shard")):
    pytest.skip("needs torch.distributed with fully_shard (torch 2.6)", allow_module_level=True)

import tests.unit.update.shard_checks  # noqa: E402, F401  (fills CHECKS)
from tests.unit.update.shard_worlds import CHECKS, run_check  # noqa: E402


@pytest.mark.parametrize("name", list(CHECKS))
def test_two_processes_agree_with_one(pair: Team, name: str) -> None:
    pair(run_check, name)
