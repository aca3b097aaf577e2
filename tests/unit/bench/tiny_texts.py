"""A protocol of a language model that is small enough for tests."""

from __future__ import annotations

from pathlib import Path

from tests.unit.bench.tiny_protocol import write_changed

TINY_TEXTS = """\
seeds = [0]
evaluate_at = [1, 2]

[training]
epochs = 4
batch_size = 32
lr = 5e-3
schedule = "one-cycle"
algorithm = "adamw"

[unlearning]
epochs = 2
batch_size = 6
lr = 1e-3

[[block]]
name = "tiny"
data = "invented-people"
limit = 6
test_limit = 2
model = "small-transformer"
options = { width = 16, layers = 1, heads = 2 }
scenarios = ["people:0.2"]
methods = ["NPO"]
addons = ["none", "FOCUS"]
moments = ["adam"]
"""


def write_tiny_texts(folder: Path, *changes: tuple[str, str]) -> Path:
    """The protocol as a file, with some text replaced."""
    return write_changed(folder / "texts.toml", TINY_TEXTS, changes)
