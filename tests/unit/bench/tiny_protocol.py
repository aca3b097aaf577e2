"""A protocol small enough for tests: seconds, not minutes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from expunge.bench._results import BenchResult

TINY = """\
seeds = [0]
evaluate_at = [1, 3]

[training]
epochs = 2
batch_size = 32
lr = 0.05
schedule = "one-cycle"
augment = false

[unlearning]
epochs = 3
batch_size = 8
lr = 1e-3

[[block]]
name = "tiny"
data = "digits"
limit = 60
test_limit = 80
model = "small-cnn"
width = 0.2
scenarios = ["random:0.3"]
methods = ["SRL"]
addons = ["none", "FOCUS"]
baselines = ["FT"]
"""


def write_tiny(folder: Path, *changes: tuple[str, str]) -> Path:
    """The protocol as a file, with some text replaced."""
    return write_changed(folder / "tiny.toml", TINY, changes)


def write_changed(path: Path, text: str, changes: tuple[tuple[str, str], ...]) -> Path:
    """A text as a file, with some of it replaced."""
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text, encoding="utf-8")
    return path


def timeless(results: list[BenchResult]) -> list[dict[str, Any]]:
    """The results without what depends on the clock or the machine."""
    found = []
    for result in results:
        plain = json.loads(result.dump())
        plain.pop("environment", None)
        for row in plain["epochs"]:
            row.pop("seconds", None)
            row.pop("processor_seconds", None)
        found.append(plain)
    return found
