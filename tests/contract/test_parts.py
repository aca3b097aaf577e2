"""What every attack, data format and protocol promises, those of plug-ins included."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from expunge.bench._protocol_file import load_protocol
from expunge.bench.protocols import PROTOCOLS
from expunge.data import DATASETS, load
from expunge.evaluation import ATTACKS, Predictions, Views

FORMATS = [name for name in DATASETS if name == "digits" or DATASETS.origin(name)]
"""Formats that may be loaded without a path, and without a download."""
COUNTS = {"forget": 20, "retain": 60, "val": 30, "test": 40}


def predictions(count: int, seed: int) -> Predictions:
    draw = torch.Generator().manual_seed(seed)
    return Predictions(torch.randn(count, 3, generator=draw), torch.arange(count) % 3)


def views(seed: int) -> Views:
    return Views(**{name: predictions(n, seed + k) for k, (name, n) in enumerate(COUNTS.items())})


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_scores_every_example_and_again_alike(name: str) -> None:
    target, references = views(0), [views(10), views(20)]
    first = ATTACKS[name].score(target, references, seed=3)
    again = ATTACKS[name].score(target, references, seed=3)
    assert len(first.forget) == COUNTS["forget"]
    assert 0 < len(first.test) <= COUNTS["test"]
    for scores, same in ((first.forget, again.forget), (first.test, again.test)):
        assert np.isfinite(scores).all()
        np.testing.assert_array_equal(scores, same)


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_gives_the_same_splits_again(name: str) -> None:
    if DATASETS[name].needs_path:
        pytest.skip("needs a path")
    first, again = load(name, limit=20), load(name, limit=20)
    assert len(first.train) == 20
    for split in ("train", "val", "test"):
        data, same = getattr(first, split), getattr(again, split)
        assert torch.equal(data.inputs, same.inputs)
        assert torch.equal(data.labels, same.labels)
        assert 0 <= int(data.labels.min()) <= int(data.labels.max()) < len(data.classes)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_protocol_is_read_and_its_parts_exist(name: str) -> None:
    protocol = load_protocol(name)
    assert protocol.block
    assert protocol.seeds
