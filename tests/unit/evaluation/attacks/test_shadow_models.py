"""Shadow models: what they see, and what their results are kept under."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from expunge._errors import InvalidInput
from expunge.data import ImageSet
from expunge.engine import Procedure, Recipe
from expunge.engine._artifact import ModelCard
from expunge.evaluation.attacks._shadow_models import (
    ShadowPlan,
    draw_members,
    run_shadows,
    shadow_stages,
)
from expunge.store import Store
from tests.stand_ins import compute_in_this_process

PLAN = ShadowPlan(
    ModelCard(name="small-cnn", num_classes=3, in_channels=1, width=0.1),
    Recipe(epochs=1, batch_size=8, lr=0.05),
    Procedure("SRL", "FOCUS", epochs=1, batch_size=8),
    count=4,
)


def images(count: int, seed: int) -> ImageSet:
    random = torch.Generator().manual_seed(seed)
    pixels = torch.randint(0, 256, (count, 1, 8, 8), generator=random, dtype=torch.uint8)
    labels = torch.arange(count) % 3
    pixels[labels == 1] //= 4
    return ImageSet(pixels, labels, ("a", "b", "c"))


def test_every_target_is_seen_by_half_of_the_shadows() -> None:
    seen = [draw_members(11, 20, {"seed": 0, "index": k, "share": 0.5})[0] for k in range(8)]
    assert np.stack(seen).sum(axis=0).tolist() == [4] * 11


def test_more_shadows_extend_fewer() -> None:
    path = Path("x.safetensors")
    few, many = shadow_stages(PLAN, path), shadow_stages(replace(PLAN, count=8), path)
    assert [s.key for s in few] == [s.key for s in many[:8]]


def test_trainings_are_shared_by_add_ons_and_unlearnings_are_not() -> None:
    path = Path("x.safetensors")
    focus = shadow_stages(PLAN, path)
    other = shadow_stages(replace(PLAN, procedure=Procedure("SRL", "AND", epochs=1)), path)
    assert [s.key for s in focus[::2]] == [s.key for s in other[::2]]
    assert not {s.key for s in focus[1::2]} & {s.key for s in other[1::2]}


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"share": 0.4},
        {"recipe": Recipe(epochs=2, batch_size=8, lr=0.05)},
        {"model": ModelCard(name="small-cnn", num_classes=3, in_channels=1, width=0.2)},
    ],
)
def test_whatever_changes_a_training_changes_its_key(change: dict[str, object]) -> None:
    path = Path("x.safetensors")
    changed = shadow_stages(replace(PLAN, **change), path)  # type: ignore[arg-type]
    assert not {s.key for s in changed} & {s.key for s in shadow_stages(PLAN, path)}


def test_other_data_are_other_shadows() -> None:
    a, b = (shadow_stages(PLAN, Path(f"{name}.safetensors")) for name in "ab")
    assert not {s.key for s in a} & {s.key for s in b}


@pytest.mark.parametrize("worker", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_shadows_are_computed_once_and_damage_is_not_reused(
    worker: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not worker:
        compute_in_this_process(monkeypatch)
    store = Store(tmp_path)
    first = run_shadows(PLAN, retain=images(24, 0), targets=images(8, 1), store=store, workers=1)
    # Nothing of the targets is left in the store but what models say of them, for the owner alone.
    assert list((store.root / ".data").iterdir()) == []
    pixels = [image.numpy().tobytes() for image in images(8, 1).images]
    for path in store.root.rglob("*.safetensors"):
        assert not any(image in path.read_bytes() for image in pixels), path
        assert path.stat().st_mode & 0o777 == 0o600, path
    (store.root / ".data" / "killed").mkdir()
    (store.root / ".data" / "old.safetensors").write_text("images")
    again = run_shadows(PLAN, retain=images(24, 0), targets=images(8, 1), store=store, workers=1)
    assert first.unlearned.confidence.shape == (4, 8)
    assert np.array_equal(first.unlearned.confidence, again.unlearned.confidence)
    assert not np.array_equal(first.trained.confidence, first.unlearned.confidence)
    assert again.notes == ()

    victim = next(tmp_path.glob("shadow-unlearn/*/scores.safetensors"))
    victim.write_bytes(victim.read_bytes()[:-1] + b"\x07")
    assert list((store.root / ".data").iterdir()) == [], "what killed audits left is removed"
    mended = run_shadows(PLAN, retain=images(24, 0), targets=images(8, 1), store=store, workers=1)
    assert mended.notes != ()
    assert np.array_equal(first.unlearned.confidence, mended.unlearned.confidence)


@pytest.mark.parametrize("count", [0, 2, 3, 5])
def test_shadows_come_in_pairs(count: int) -> None:
    with pytest.raises(InvalidInput, match="even"):
        replace(PLAN, count=count)
