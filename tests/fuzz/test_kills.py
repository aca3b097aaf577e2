"""A few interruptions with the other tests; ``make fuzz`` interrupts at every write."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.fuzz.counts import KILLS, read_counts
from tests.fuzz.kills import COMMANDS, How, points


@pytest.mark.thorough
def test_a_command_that_is_interrupted_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    # In a process of its own, which has no threads yet when it forks.
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("EXPUNGE_", "XDG_"))}
    found = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.kills", "2"],
        cwd=Path(__file__).parents[2],
        env=inherited | {"OMP_NUM_THREADS": "1", "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    for name in COMMANDS:
        assert f"{name}, killed: 2 tried, 2 clean" in found.stdout
        assert f"{name}, disk full: 1 tried, 1 clean" in found.stdout
    assert not list(tmp_path.rglob("expunge")), "the user's cache and id key are left alone"


def test_the_security_policy_counts_every_command_and_way_to_interrupt_it() -> None:
    counts = read_counts(KILLS)
    kinds = {f"{name}, {how}" for name in COMMANDS for how in get_args(How)}
    assert kinds <= set(counts), "run `make fuzz`"
    assert all(row.bad == 0 for row in counts.values())


def test_points_are_all_or_spread_from_the_first_to_the_last() -> None:
    assert points(4, None) == points(4, 9) == [1, 2, 3, 4]
    assert points(9, 3) == [1, 5, 9]
