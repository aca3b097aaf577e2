"""No step depends on rounding: of every method with every add-on, at its first step.

Results of sums differ from machine to machine and with the order of their terms, by some roundings.
A step may differ by as much. Where an add-on read the sign or the rank of a number that is nothing
but rounding, it would differ by whole entries.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.contract.first_steps import EXAMPLES, Gradients, first_steps

Steps = dict[str, Gradients]
ROOT = Path(__file__).parents[2]
PATIENCE = 600.0
TOLERANCE = 1e-5
"""Relative to the largest entry of the step: 100 roundings, for sums over a batch of images."""
WIDE_TOLERANCE = 1e-3
"""Where rounding is divided by a small number: by √(v + ε) ≥ 1e-4 for FOCUS, and by 1 - p, for the
probability p of the label, in the gradient of the loss of a fitted model."""
SMOOTH = ("focus",)
THRESHOLDS = ("prob", "bernoulli", "optimal")
"""Here one f may lie within rounding of its threshold, and fall on its other side."""


@pytest.fixture(scope="module")
def plain() -> Iterator[Steps]:
    """All first steps, by this process with one thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield first_steps()
    torch.set_num_threads(before)


def assert_equal_up_to_rounding(steps: Steps, others: Steps) -> None:
    assert steps.keys() == others.keys()
    failures = []
    for name, step in steps.items():
        other = others[name]
        assert step.keys() == other.keys()
        world, _, addon = name.split(maxsplit=2)
        largest = max(float(entries.abs().max()) for entries in step.values())
        tolerance = WIDE_TOLERANCE if addon in SMOOTH or world == "fitted" else TOLERANCE
        different = sum(
            int(((other[key] - step[key]).abs() > tolerance * largest).sum()) for key in step
        )
        if different > (addon in THRESHOLDS):
            failures.append(f"{name}: {different} entries")
    assert not failures, failures


@pytest.mark.parametrize(
    ("seed", "factor"),
    [
        (0, 1 + 1e-7),
        pytest.param(1, 1 + 2e-7, marks=pytest.mark.thorough),
        pytest.param(2, 1 - 1e-7, marks=pytest.mark.thorough),
    ],
)
def test_neither_the_order_of_a_batch_nor_the_last_bit_of_its_inputs_matters(
    plain: Steps, seed: int, factor: float
) -> None:
    order = torch.randperm(EXAMPLES, generator=torch.Generator().manual_seed(seed))
    assert_equal_up_to_rounding(plain, first_steps(order=order, factor=factor))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "environment",
    [
        {"MKL_CBWR": "COMPATIBLE", "ATEN_CPU_CAPABILITY": "default"},
        # Threads that wait for each other passively do so on a busy machine, too.
        {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "PASSIVE"},
    ],
    ids=lambda environment: next(iter(environment)),
)
def test_neither_instructions_nor_threads_matter(
    plain: Steps, environment: dict[str, str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.contract.first_steps", str(tmp_path / "steps.pt")]
    variables = os.environ | {"OMP_NUM_THREADS": "1"} | environment
    subprocess.run(command, cwd=ROOT, env=variables, check=True, timeout=PATIENCE)
    assert_equal_up_to_rounding(plain, torch.load(tmp_path / "steps.pt", weights_only=True))
