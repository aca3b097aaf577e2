"""Sharded over two real processes, the update is what it is in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

fsdp = pytest.importorskip("torch.distributed.fsdp")
if not (torch.distributed.is_available() and hasattr(fsdp, "fully_shard")):
    pytest.skip("needs torch.distributed with fully_shard (torch 2.6)", allow_module_level=True)

import tests.unit.sharded.checks  # noqa: E402, F401  (fills CHECKS)
from tests.unit.sharded import world  # noqa: E402

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    """What each of the two processes says of each check."""
    folder = tmp_path_factory.mktemp("world")
    variables = os.environ | {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.unit.sharded.world", str(rank), str(folder)],
            cwd=ROOT,
            env=variables,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(world.WORLD)
    ]
    try:
        errors = [process.communicate(timeout=240)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    said = []
    for rank, process in enumerate(processes):
        assert process.returncode == 0, errors[rank]
        said.append(json.loads((folder / f"outcomes-{rank}.json").read_text()))
    return said


@pytest.mark.parametrize("name", list(world.CHECKS))
def test_two_processes_agree_with_one(outcomes: list[dict[str, str]], name: str) -> None:
    for said in outcomes:
        assert said[name] == "ok", said[name]
