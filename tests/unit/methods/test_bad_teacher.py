"""Bad Teacher against literal divergences from its two teachers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from expunge.methods import BadTeacher
from expunge.methods._bad_teacher import WEIGHTS
from tests import tiny
from tests.tiny import TinyConv, bits, images, same
from tests.unit.engine.test_checkpoint import KillAt, Killed
from tests.unit.methods.rival_world import batches, literal_divergence, problem


def test_forget_data_are_learned_from_a_random_model_and_the_rest_from_the_initial_one() -> None:
    world, method = problem(), BadTeacher()
    forget, retain = batches()
    method.prepare(world)
    bad = TinyConv().eval()
    own = {name.removeprefix(WEIGHTS): value for name, value in world.memory.items()}
    bad.load_state_dict(own)
    assert not torch.equal(bad.conv1.weight, world.initial.conv1.weight)
    with torch.no_grad():
        objective = method.objective(world, forget, retain)
        expected = literal_divergence(bad(forget.inputs), world.model(forget.inputs))
        assert float(objective.loss) == pytest.approx(expected, rel=1e-4)
        expected = literal_divergence(world.initial(retain.inputs), world.model(retain.inputs))
        assert float(method.constraint(world, forget, retain)) == pytest.approx(expected, rel=1e-4)
        assert float(objective.saliency) == pytest.approx(float(world.loss_on(forget)), rel=1e-5)


def test_the_bad_teacher_is_the_same_after_a_kill(tmp_path: Path) -> None:
    def go(**options: object) -> dict[str, torch.Tensor]:
        result = tiny.unlearn(
            TinyConv(),
            forget=images(12, seed=1),
            retain=images(12, seed=2),
            method="bad-teacher",
            epochs=2,
            batch_size=4,
            lr=0.01,
            progress=False,
            checkpoint_every=2,
            **options,
        )
        return bits(result.model)

    with pytest.raises(Killed):
        go(checkpoint=tmp_path / "run", callbacks=[KillAt(5)])
    assert same(go(checkpoint=tmp_path / "run"), go())


def test_a_model_may_return_its_logits_in_a_dict() -> None:
    class Named(TinyConv):
        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": super().forward(x)}

    plain, named = problem(), problem(Named())
    for world in (plain, named):
        BadTeacher().prepare(world)
    losses = [BadTeacher().objective(world, *batches()).loss for world in (plain, named)]
    assert torch.equal(*losses)
