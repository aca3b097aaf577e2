"""DELETE against a literal mask."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data import TensorDataset

from expunge import InvalidInput
from expunge.methods import MaskedTeacher
from tests import tiny
from tests.tiny import Counting
from tests.unit.methods.rival_world import batches, literal_divergence, problem


def test_the_label_loses_its_probability_and_the_others_keep_their_proportions() -> None:
    world, (forget, retain) = problem(), batches()
    with torch.no_grad():
        masked = world.initial(forget.inputs)
        for row, label in zip(masked, forget.targets.tolist(), strict=True):
            row[label] = -torch.inf
        found = MaskedTeacher().objective(world, forget, retain)
        expected = literal_divergence(masked, world.model(forget.inputs))
    assert float(found.loss) == pytest.approx(expected, rel=1e-4)


def test_there_is_no_constraint_and_there_are_classes() -> None:
    assert not MaskedTeacher().constrained
    soft, other = (TensorDataset(torch.randn(4, 4), torch.full((4, 3), 1 / 3)) for _ in range(2))
    with pytest.raises(InvalidInput, match="`masked-teacher` needs one class number per example"):
        tiny.unlearn(Counting(), forget=soft, retain=other, method="DELETE", progress=False)
