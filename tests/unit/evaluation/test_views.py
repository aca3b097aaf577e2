"""The predictions of one model on every split."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import DataLoader

from expunge import InvalidInput
from expunge.evaluation import (
    view,
)
from tests.unit.evaluation.worlds import Passing, as_dataset, world

WORLD = world(forget=2.0, retain=3.0, size=200)

SPLITS = {name: as_dataset(part) for name, part in WORLD.items()}


def test_view_gathers_the_splits() -> None:
    found = view(Passing(), **SPLITS)
    assert all(torch.equal(part.logits, found.split(name).logits) for name, part in WORLD.items())


def test_a_loader_that_shuffles_is_refused() -> None:
    shuffled = DataLoader(SPLITS["test"], batch_size=9, shuffle=True)
    in_order = DataLoader(SPLITS["test"], batch_size=9)
    with pytest.raises(InvalidInput, match="`test` should keep its order"):
        view(Passing(), **SPLITS | {"test": shuffled})
    assert torch.equal(
        view(Passing(), **SPLITS | {"test": in_order}).test.logits, WORLD.test.logits
    )
