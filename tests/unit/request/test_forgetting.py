"""How records are forgotten: by training again, or by a method that is told when to stop."""

from __future__ import annotations

import copy
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from expunge import _tensors as tensors
from expunge._errors import InvalidInput
from expunge.data import Examples
from expunge.engine import Callback, Procedure, Recipe, Run
from expunge.evaluation import predict, predict_texts
from expunge.evaluation._benign_steps import loss_auc
from expunge.evaluation._scores import accuracy
from expunge.request._forgetting import (
    MIN_STEPS,
    ForgettingResult,
    fit_to_size,
    forget_records,
    known_recipe,
)
from expunge.request._job import make_job, text_defaults
from expunge.request.loading._load import model_and_data_of
from tests.tiny import bits, same
from tests.unit.request import text_worlds

MATCH = Procedure.from_plain({"method": "MATCH", "lr": 3e-3})
USUAL = nn.Linear(1000, 1)
"""As wide as the models that the preferred rate suits."""
RECIPE = Recipe(epochs=20, batch_size=16, lr=0.05, schedule="one-cycle")


class World(NamedTuple):
    """A net that knows clouds of points by heart, and what it is to forget of them."""

    initial: nn.Module
    forget: Examples
    retain: Examples
    val: Examples


def clouds(count: int, seed: int) -> Examples:
    """Points around the centres of three classes."""
    random = torch.Generator().manual_seed(seed)
    y = torch.arange(count) % 3
    x = torch.randn(count, 10, generator=random)
    x[torch.arange(count), y] += 2.4
    return Examples(x, y, ("a", "b", "c"))


@cache
def world(seed: int = 0) -> World:
    train = clouds(180, seed)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(150):
        optimizer.zero_grad()
        F.cross_entropy(net(train.inputs), train.labels).backward()
        optimizer.step()
    parts = train.subset(range(45)), train.subset(range(45, 180))
    return World(net.eval(), *parts, clouds(300, seed + 1000))


def go(method: str = "refresh", **options: Any) -> ForgettingResult:
    place = options.pop("place", world())
    run = {name: options.pop(name) for name in ("checkpoint", "callbacks") if name in options}
    exact = {"exact": True} if method == "retrain" else {"method": method}
    recipe = asdict(options.pop("recipe", RECIPE))
    options |= {"recipe": recipe, "device": "cpu", "addon": "none"} | exact
    job = make_job(weights=Path("memory"), out=Path("memory"), **options)
    loaded = model_and_data_of(place.initial, (place.retain, place.val, place.val), job)
    return forget_records(job, loaded, place.forget, place.retain, progress=False, **run)


def test_refresh_trains_for_a_fifth_of_the_recipe() -> None:
    done = go()
    assert [row["epoch"] for row in done.epochs] == [1, 2, 3, 4]
    assert done.stopped.epoch == 4


@pytest.mark.parametrize("method", ["refresh", "retrain"])
def test_what_the_records_are_makes_no_difference_to_training_again(method: str) -> None:
    place = world()
    other = place._replace(forget=clouds(45, 7))
    assert same(bits(go(method).model), bits(go(method, place=other).model))


def test_refresh_keeps_less_in_a_second_run_if_the_records_are_still_known(tmp_path: Path) -> None:
    points, unseen = (
        Examples(each.inputs, each.labels.sort().values, each.classes)  # only memory tells them
        for each in (world().retain, world().val)
    )
    copies = Examples(points.inputs + 1e-4, points.labels, points.classes)
    kept = World(world().initial, points, copies, unseen)  # every run learns the records again
    long = Recipe(epochs=200, batch_size=16, lr=0.2, schedule="one-cycle")
    once = go("refresh(left=0.1)", place=kept, recipe=long)
    done = go(place=kept, recipe=long, checkpoint=tmp_path / "run")
    assert same(bits(done.model), bits(once.model))
    assert done.stopped.reason.startswith("The loss attack against val still had an AUC of 0.")
    again = go(place=kept, recipe=long, checkpoint=tmp_path / "run")  # both runs are finished
    assert same(bits(done.model), bits(again.model))


def test_a_record_that_stays_in_makes_a_difference() -> None:
    place = world()
    whole = Examples(
        torch.cat((place.retain.inputs, place.forget.inputs[:1])),
        torch.cat((place.retain.labels, place.forget.labels[:1])),
        place.retain.classes,
    )
    planted = place._replace(retain=whole)
    assert not same(bits(go("retrain").model), bits(go("retrain", place=planted).model))


def test_a_recipe_of_the_job_leaves_the_rest_to_the_card() -> None:
    card: Any = SimpleNamespace(recipe={"epochs": 30, "batch_size": 32})
    job = make_job(weights=Path("memory"), out=Path("memory"), recipe={"lr": 0.01})
    assert known_recipe(card, job) == Recipe(epochs=30, batch_size=32, lr=0.01)
    assert known_recipe(None, job) == Recipe(lr=0.01)


def test_exact_deletion_trains_by_the_whole_recipe() -> None:
    assert len(go("retrain").epochs) == RECIPE.epochs


def test_the_given_model_is_left_alone() -> None:
    before = bits(world().initial)
    go()
    go("SRL", lr=3e-3, batch_size=16, max_epochs=2)
    assert same(before, bits(world().initial))


def test_the_epoch_that_looks_most_like_val_is_kept() -> None:
    place = world()
    done = go("SRL", lr=5e-4, batch_size=16, max_epochs=8, margin_test=100.0)
    distances = [
        max(abs(2 * row["auc"] - 1), abs(row["ua"] - row["val_alike"]) / 100) for row in done.epochs
    ]
    best = min(range(len(distances)), key=distances.__getitem__)
    assert done.stopped.epoch == done.epochs[best]["epoch"]
    forget = predict(done.model, place.forget)
    assert accuracy(forget) == pytest.approx(done.epochs[best]["ua"])
    assert loss_auc(forget, predict(place.initial, place.val)) < 1.0


def test_an_epoch_that_loses_too_much_on_val_is_not_kept() -> None:
    done = go("SRL", lr=0.3, batch_size=16, max_epochs=3, margin_test=1e-9)
    assert done.stopped.epoch == 0
    assert same(bits(done.model), bits(world().initial))
    assert "No epoch was better than the initial model" in done.stopped.reason


@pytest.mark.parametrize(
    "options", [{"lr": 30.0, "alpha": 0.5}, {"lr": 1e37, "method": "gradient-ascent"}]
)
def test_a_collapse_leaves_the_original_weights(options: dict[str, Any]) -> None:
    done = go(**{"method": "SRL", "batch_size": 16, "max_epochs": 4} | options)
    assert same(bits(done.model), bits(world().initial))


class Killed(Exception):
    """In place of a kill."""


class KilledAt(Callback):
    """Dies after an epoch."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, run: Run) -> None:
        if run.epoch == self.epoch:
            raise Killed


@pytest.mark.parametrize("method", ["refresh", "SRL"])
def test_a_killed_run_resumes_to_the_same_bits(method: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": method, "max_epochs": 4, "batch_size": 16, "lr": 3e-3}
    whole = go(**options)
    path = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        go(**options, checkpoint=path, callbacks=[KilledAt(2)])
    again = go(**options, checkpoint=path)
    assert same(bits(again.model), bits(whole.model))
    assert again.stopped == whole.stopped


def test_a_checkpoint_with_another_floor_is_refused(tmp_path: Path) -> None:
    options: dict[str, Any] = {"method": "SRL", "max_epochs": 4, "batch_size": 16, "lr": 3e-3}
    path = tmp_path / "checkpoint"
    with pytest.raises(Killed):
        go(**options, checkpoint=path, callbacks=[KilledAt(2)])
    with pytest.raises(InvalidInput, match="another floor"):
        go(**options, checkpoint=path, margin_test=9.0)


def test_small_forget_sets_get_enough_steps_and_large_ones_no_more() -> None:
    small = fit_to_size(MATCH, 12, USUAL)
    assert small.batch_size == 16
    assert small.epochs == MIN_STEPS
    assert fit_to_size(MATCH, 1000, USUAL).epochs == MATCH.epochs
    assert fit_to_size(MATCH, 4500, USUAL).epochs == 12, "large ones need fewer passes"
    assert fit_to_size(MATCH, 100_000, USUAL).epochs == 8
    for size in (1, 12, 1000, 100_000):
        assert fit_to_size(MATCH, size, USUAL, 2).epochs == 2, "a cap is a cap"


def test_long_runs_take_smaller_steps_unless_the_rate_was_chosen() -> None:
    preferred = Procedure.from_plain({"method": "MATCH"})
    assert fit_to_size(preferred, 1000, USUAL).lr == preferred.lr, "320 steps"
    steps = 12 * 71
    assert fit_to_size(preferred, 4500, USUAL).lr == pytest.approx(
        preferred.lr * (320 / steps) ** 0.5
    )
    assert fit_to_size(preferred, 100, USUAL).lr == pytest.approx(preferred.lr * (25 / 64) ** 0.5)
    assert fit_to_size(MATCH, 4500, USUAL).lr == MATCH.lr
    assert fit_to_size(Procedure(epochs=3), 12, USUAL).epochs == 3, "a constant rate stops anywhere"


def test_narrower_models_take_a_larger_rate_unless_it_was_chosen() -> None:
    preferred = Procedure.from_plain({"method": "MATCH"})
    for inputs, factor in ((500, 2.0), (2000, 0.5), (10, 4.0), (10**6, 0.25)):
        found = fit_to_size(preferred, 1000, nn.Linear(inputs, 1))
        assert found.lr == pytest.approx(factor * preferred.lr)
        assert fit_to_size(MATCH, 1000, nn.Linear(inputs, 1)).lr == MATCH.lr
    assert fit_to_size(preferred, 1000, nn.Embedding(5, 7)).lr == preferred.lr


def test_a_language_model_is_trained_again_from_the_checkpoint_it_came_from(
    tmp_path: Path,
) -> None:
    base = copy.deepcopy(text_worlds.memorised())
    with torch.no_grad():
        for p in base.parameters():
            p.add_(1.0)
    tensors.save(tmp_path / "base.safetensors", base.state_dict(), {})
    recipe = {"epochs": 1, "batch_size": 64, "lr": 1e-9, "algorithm": "adamw"}
    job = make_job(
        weights=Path("memory"),
        out=tmp_path,
        method="match-answers",
        exact=True,
        base=tmp_path / "base.safetensors",
        recipe=recipe,
    )
    loaded = model_and_data_of(text_worlds.memorised(), text_worlds.data(), job)
    train = loaded.train
    parts = train.subset(range(24)), train.subset(range(24, len(train)))
    found = forget_records(job, loaded, *parts, progress=False)
    for p, start in zip(found.model.parameters(), base.parameters(), strict=True):
        assert torch.allclose(p, start, atol=1e-5), "a step of 1e-9 stays where it started"


def test_a_language_model_is_refreshed_by_its_recipe(tmp_path: Path) -> None:
    """What is retained is learnt again; what is not comes out no more."""
    values = {"method": "refresh(keep=0.1,rate=1.0,budget=1.0)"}
    recipe = {"epochs": 30, "batch_size": 16, "lr": 3e-3, "algorithm": "adamw"}
    job = make_job(
        weights=Path("memory"), out=tmp_path, recipe=recipe, **text_defaults(values) | values
    )
    assert job.addon == "none"
    loaded = model_and_data_of(text_worlds.memorised(), text_worlds.data(), job)
    train = loaded.train
    parts = train.subset(range(24)), train.subset(range(24, len(train)))
    found = forget_records(job, loaded, *parts, progress=False)
    forgotten, retained = (
        float(predict_texts(found.model, part).scores["facts_right"].mean()) for part in parts
    )
    assert forgotten < 0.3
    assert retained > 0.8
