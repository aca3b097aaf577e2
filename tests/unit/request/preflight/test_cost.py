from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from expunge.engine import Recipe
from expunge.request.loading._load import model_and_data_of
from expunge.request.preflight import _cost as cost
from expunge.request.preflight._cost import FIXED_SECONDS, OVERHEAD, advise, estimate_cost
from tests.unit.request.worlds import Viewing, images, job_of, loaded_world


@pytest.fixture
def known(monkeypatch):
    """A machine on which an example takes a second to train on, and a tenth to run."""
    monkeypatch.setattr(cost, "time_training", lambda *_: (1.0, 2.0))
    monkeypatch.setattr(cost, "FORWARD", 0.1)


def test_seconds_are_examples_times_pace(tmp_path, known):
    loaded = loaded_world(tmp_path)
    job = job_of(tmp_path, method="SRL", max_epochs=5, training_epochs=30)
    found = estimate_cost(loaded, 40, 200, job)
    # three steps of 16: 40 to forget beside 48 to retain; then a look at 60 of val and at the 40
    assert found.epoch_seconds == pytest.approx(OVERHEAD * (88 + 0.1 * 100), rel=1e-3)
    assert found.unlearning_seconds == pytest.approx(5 * found.epoch_seconds, rel=1e-3)
    # before and after: 240 of train, 60 of val and 60 of test;
    examples = len(loaded.train) + len(loaded.val) + len(loaded.test)
    # twice, and once more after 50 benign steps of 128
    around = OVERHEAD * (3 * 0.1 * examples + 6400) + FIXED_SECONDS
    assert found.request_seconds == pytest.approx(found.unlearning_seconds + around, rel=1e-3)
    assert found.retraining_seconds == pytest.approx(OVERHEAD * 30 * 200, rel=1e-3)
    assert found.retraining_processor_seconds == pytest.approx(OVERHEAD * 30 * 200 * 2, rel=1e-3)
    assert found.retraining_epochs == 30
    assert found.advice == "exact", "there are too few records to save anything"
    assert "30 epochs, as stated" in found.note


def test_a_method_with_its_own_targets_takes_more_epochs_of_few_steps(tmp_path, known):
    found = estimate_cost(loaded_world(tmp_path), 40, 200, job_of(tmp_path, method="MATCH"))
    assert "The request: 107 epochs" in found.note  # of three steps each: 320 at least


def test_the_cost_of_retraining_is_unknown_unless_somebody_says_for_how_long(tmp_path, known):
    found = estimate_cost(loaded_world(tmp_path), 40, 200, job_of(tmp_path, max_epochs=5))
    assert found.retraining_epochs is found.retraining_seconds is None
    assert found.retraining_processor_seconds is None
    assert "unknown" in found.note
    assert "--training-epochs" in found.note
    assert found.advice == "unlearn"
    epochs = found.request_seconds / (OVERHEAD * 200)
    assert f"as long as {epochs:.1f} epochs of it" in found.sentence
    plain = found.model_dump()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["retraining_seconds"] is None


def test_the_recipe_says_what_training_again_costs(tmp_path, known):
    recipe = {"epochs": 10, "batch_size": 20, "lr": 0.1}
    found = estimate_cost(loaded_world(tmp_path), 40, 200, job_of(tmp_path, recipe=recipe))
    assert found.retraining_epochs == 10
    assert found.epoch_seconds == pytest.approx(OVERHEAD * (200 + 0.1 * 100), rel=1e-3)
    assert found.unlearning_seconds == pytest.approx(2 * found.epoch_seconds, rel=1e-3), (
        "a fifth of them"
    )


def test_a_last_batch_that_is_short_is_still_paired_with_a_whole_one(tmp_path, known):
    loaded = loaded_world(tmp_path)
    found = estimate_cost(loaded, 130, 110, job_of(tmp_path, method="SRL", batch_size=30))
    assert found.epoch_seconds == pytest.approx(OVERHEAD * (130 + 5 * 30 + 0.1 * 190), rel=1e-3)


def test_a_method_without_a_constraint_takes_half(tmp_path, known):
    loaded = loaded_world(tmp_path)
    alone = estimate_cost(loaded, 40, 200, job_of(tmp_path, method="GA"))
    assert alone.epoch_seconds == pytest.approx(OVERHEAD * (40 + 0.1 * 100), rel=1e-3)
    both = estimate_cost(loaded, 40, 200, job_of(tmp_path, method="NGPlus"))
    assert both.epoch_seconds == pytest.approx(OVERHEAD * (88 + 0.1 * 100), rel=1e-3)


@pytest.mark.parametrize(
    ("request_seconds", "advice", "words"),
    [
        (40.0, "unlearn", "Unlearn: about 40 s against 100 s for retraining."),
        (41.0, "either", "Either: unlearning takes about 41 s against 100 s"),
        (59.0, "either", "Either"),
        (60.0, "exact", "Train again (`--exact`), which leaves no doubt: unlearning takes about"),
    ],
)
def test_advice_has_a_dead_band(request_seconds, advice, words):
    found, sentence = advise(request_seconds, 100.0)
    assert found == advice
    assert sentence.startswith(words)


def test_who_asks_for_exact_deletion_gets_no_other_advice():
    assert advise(10.0, 100.0, exact=True)[0] == "exact"
    assert advise(10.0, None, 2.0)[1] == (
        "Unlearn: about 10 s, as long as 5.0 epochs of it. What retraining would take is unknown."
    )


def test_the_timed_steps_are_those_of_the_recipe_and_of_the_method(tmp_path, monkeypatch):
    """Batches of the real size, the real optimizer, whole steps: a tiny model's are most of it."""
    trained = []

    def train(model, data, *, recipe, **_):
        trained.append((recipe.algorithm, recipe.batch_size, len(data), recipe.epochs))
        rows = [{"seconds": s, "processor_seconds": 2 * s} for s in range(recipe.epochs)]
        return SimpleNamespace(history=SimpleNamespace(epochs=rows))

    monkeypatch.setattr(cost, "train", train)
    loaded, recipe = loaded_world(tmp_path), {"epochs": 10, "batch_size": 50, "lr": 0.1}
    found = estimate_cost(loaded, 40, 200, job_of(tmp_path, recipe=recipe))
    assert trained == [("sgd", 50, 100, 2)]
    assert found.training_step == 0.01  # a second for the 100 examples of the second epoch
    assert found.retraining_processor_seconds == pytest.approx(2 * found.retraining_seconds)
    trained.clear()
    job = job_of(tmp_path, recipe=recipe | {"algorithm": "adamw"}, method="SRL", batch_size=16)
    estimate_cost(loaded, 40, 200, job)
    assert trained == [("adamw", 50, 100, 2), ("adam", 16, 32, 2)]


def test_steps_that_are_over_soon_are_timed_for_longer(tmp_path, monkeypatch):
    sizes = []

    def train(model, data, *, recipe, **_):
        sizes.append((len(data), recipe.epochs))
        rows = [{"seconds": s / 1000, "processor_seconds": 0.0} for s in range(recipe.epochs)]
        return SimpleNamespace(history=SimpleNamespace(epochs=rows))

    monkeypatch.setattr(cost, "train", train)
    wall, _ = cost.time_training(loaded_world(tmp_path), job_of(tmp_path), Recipe(batch_size=100))
    assert sizes == [(200, 2), (200, 4)], "whole batches of 240"
    assert wall == pytest.approx(1e-3 / 200)


def test_timing_leaves_the_model_as_it_is(tmp_path):
    loaded = loaded_world(tmp_path)
    before = {name: value.clone() for name, value in loaded.model.state_dict().items()}
    estimate_cost(loaded, 40, 200, job_of(tmp_path))
    after = loaded.model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())


def test_the_assumptions_are_stated(tmp_path):
    found = estimate_cost(loaded_world(tmp_path), 40, 200, job_of(tmp_path))
    assert "timed on this machine" in found.note
    assert found.training_step > 0


def test_a_model_that_needs_the_plain_layout_is_timed_too(tmp_path):
    x, y = images(40, 1, channels=3)
    pairs = torch.utils.data.TensorDataset(torch.from_numpy(x).float() / 255, torch.from_numpy(y))
    loaded = model_and_data_of(Viewing(), (pairs, pairs, pairs), job_of(tmp_path))
    assert isinstance(loaded.model, nn.Module)
    assert estimate_cost(loaded, 4, 36, job_of(tmp_path)).training_step > 0
