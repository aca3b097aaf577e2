"""A little table of people: two numbers, a category, an id, and an income to predict."""

from __future__ import annotations

from pathlib import Path

import numpy as np

HEADER = "id,age,hours,job,income"


def people(count: int = 60, seed: int = 0) -> list[str]:
    """Rows of the table, as CSV; income depends on age and job."""
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(count):
        age, hours = int(rng.integers(18, 80)), round(float(rng.normal(38, 6)), 1)
        job = ("cook", "nurse", "clerk")[int(rng.integers(3))]
        high = (age > 45) ^ (job == "nurse")
        lines.append(f"p{number},{age},{hours},{job},{'high' if high else 'low'}")
    return lines


def write_csv(path: Path, lines: list[str], header: str = HEADER) -> Path:
    """A CSV file of these lines."""
    path.write_text("\n".join([header, *lines]) + "\n")
    return path
