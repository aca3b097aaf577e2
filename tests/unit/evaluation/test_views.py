"""The predictions of one model on every split."""

from __future__ import annotations

import torch

from expunge.evaluation import (
    view,
)
from tests.unit.evaluation.worlds import Passing, as_dataset, world

WORLD = world(forget=2.0, retain=3.0, size=200)

SPLITS = {name: as_dataset(part) for name, part in WORLD.items()}


def test_view_gathers_the_splits() -> None:
    found = view(Passing(), **SPLITS)
    assert all(torch.equal(part.logits, found.split(name).logits) for name, part in WORLD.items())
