"""Calibrated runs: they arrive, they keep utility, they resume, and failure keeps the original."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

from expunge import Callback, InvalidInput
from expunge.engine import Procedure, Run
from expunge.evaluation import predict
from expunge.evaluation._scores import accuracy
from expunge.request.calibrate import _run as calibration
from expunge.request.calibrate._comparison import compare
from expunge.request.calibrate._run import (
    MIN_STEPS,
    CalibrationResult,
    calibrate,
    fit_to_size,
    labels_of,
)
from expunge.request.calibrate._target import estimate_target
from tests.tiny import bits, same
from tests.unit.request.calibrate.blobs import World, digits, world


def go(seed: int = 0, **options: Any) -> CalibrationResult:
    place = world(seed)
    chosen: dict[str, Any] = {"lr": 3e-3, "batch_size": 16, "max_epochs": 16, "floor": 4.0}
    chosen |= {"seed": seed, "device": "cpu", "progress": False} | options
    chosen["epochs"] = chosen.pop("max_epochs")
    names = {item.name for item in fields(Procedure)}
    procedure = Procedure(**{name: chosen.pop(name) for name in names & set(chosen)})
    return calibrate(
        place.initial,
        forget=place.forget,
        retain=place.retain,
        val=place.val,
        procedure=procedure,
        **chosen,
    )


@cache
def finished(seed: int = 0, **options: Any) -> CalibrationResult:
    """The same, run once for all tests that only read it."""
    return go(seed, **options)


MATCH = Procedure.from_plain({"method": "MATCH", "lr": 3e-3})
USUAL = nn.Linear(1000, 1)
"""As wide as the models that the rate suits."""


def test_a_part_of_val_is_enough_during_the_run_but_all_of_it_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place, seen = world(0), []

    class Watch(Callback):
        def on_epoch(self, run: Run) -> None:
            seen.append(len(run.problem.splits.labels("unseen")))

    monkeypatch.setattr(calibration, "WATCHED", 50)
    monkeypatch.setattr(calibration, "WATCHED_PER_RECORD", 0)
    monkeypatch.setattr(calibration, "MIN_STEPS", 20)  # whether it arrives is not the question
    result = calibrate(
        place.initial,
        forget=place.forget,
        retain=place.retain,
        val=place.val,
        procedure=replace(MATCH, epochs=8),
        callbacks=[Watch()],
        progress=False,
    )
    assert set(seen) == {50}
    assert result.stopped.epoch > 0, "the weights are not those before"
    chosen = calibration._enough_of_val(torch.arange(300) % 10, torch.tensor([3, 3]), seed=0)
    assert sum(index % 10 == 3 for index in chosen) == 30, "all of the class to forget, then others"
    assert len(chosen) == 50
    predictions = [predict(result.model, part) for part in (place.forget, place.val)]
    whole = compare(*predictions, result.target)
    assert result.after.as_row() == whole.as_row()


@cache
def matched(seed: int) -> CalibrationResult:
    """The default method, at a rate for so small a net."""
    place = world(seed)
    return calibrate(
        place.initial,
        forget=place.forget,
        retain=place.retain,
        val=place.val,
        procedure=MATCH,
        floor=4.0,
        seed=seed,
        device="cpu",
        progress=False,
    )


SEEDS = pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in (1, 2))]
)


def labels(place: World) -> tuple[torch.Tensor, torch.Tensor]:
    return labels_of(place.forget), labels_of(place.retain)


def judged(place: World, model: torch.nn.Module) -> bool:
    target = estimate_target(predict(place.initial, place.val), *labels(place))
    return compare(
        predict(model, place.forget), predict(model, place.val), target, shuffles=200
    ).indistinguishable


def test_ideal_models_pass_about_as_often_as_the_level_and_initial_ones_never() -> None:
    worlds = [digits(seed) for seed in range(8)]
    assert np.mean([judged(place, place.ideal) for place in worlds]) >= 0.75
    assert not any(judged(place, place.initial) for place in worlds)


@SEEDS
def test_the_default_method_arrives_and_runs_to_its_end(seed: int) -> None:
    done = matched(seed)
    assert done.stopped.status == "achieved"
    assert done.after.indistinguishable
    assert done.history.epochs[-1]["epoch"] == fit_to_size(MATCH, 45, USUAL).epochs
    last = max(row["epoch"] for row in done.epochs if row["distance"] <= 1.0)
    assert done.stopped.epoch <= last, "the last good epoch is taken"


def test_a_run_at_a_constant_rate_ends_where_it_arrives() -> None:
    done = go(0, method="NGPlus", lr=2e-3, max_epochs=39, floor=100.0)
    assert done.stopped.status == "achieved"
    assert done.stopped.epoch == len(done.epochs) < 39
    assert not any(row["distance"] < 1.0 - 1e-9 for row in done.epochs[:-1]), "1 is the edge"


@SEEDS
def test_a_calibrated_run_comes_nearer_with_utility_above_the_floor(seed: int) -> None:
    done = matched(seed)
    assert done.after.utility >= done.before.utility - 4.0 - 1e-6
    assert accuracy(predict(done.model, world(seed).forget)) == pytest.approx(done.after.ua)
    assert done.after.distance < done.before.distance
    assert (done.stopped.status == "achieved") == done.after.indistinguishable


def test_the_given_model_is_left_alone() -> None:
    before = bits(world(0).initial)
    go(0, max_epochs=2)
    assert same(bits(world(0).initial), before)


def test_rows_tell_what_happened() -> None:
    rows = finished(0).epochs
    names = {"epoch", "ua", "va", "gap", "target_low", "target_high", "confidence_ks", "entropy_ks"}
    names |= {"auc_confidence", "auc_entropy", "auc_loss", "lr", "alpha", "action", "seconds"}
    names |= {"cosine", "agreement", "moved", "feasible"}
    assert all(names <= row.keys() for row in rows)


def test_another_aggregation_is_left_as_it_is() -> None:
    done = go(0, lr=1e-6, max_epochs=2, aggregate="min-abs")
    assert all(np.isnan(row["alpha"]) for row in done.epochs)


@pytest.mark.parametrize("options", [{"lr": 30.0}, {"lr": 1e37, "method": "gradient-ascent"}])
def test_a_collapse_ends_not_achieved_with_the_original_weights(options: dict[str, Any]) -> None:
    done = go(0, floor=0.0, max_epochs=3, **options)
    assert done.stopped.status == "not achieved"
    assert done.stopped.epoch == 0
    assert same(bits(done.model), bits(world(0).initial))
    assert done.after == done.before
    assert "kept" in done.stopped.reason


def test_a_class_that_breaks_disqualifies_an_epoch() -> None:
    """Everything is given up for the forget set; accuracy over all classes may fall freely."""
    place = world(0)
    only = Subset(place.forget, [i for i, (_, y) in enumerate(place.forget) if y == 0])
    options: dict[str, Any] = {"retain": place.retain, "val": place.val, "device": "cpu"}
    procedure = Procedure(method="GA", lr=1e-1, epochs=12, batch_size=16)
    done = calibrate(
        place.initial, forget=only, procedure=procedure, floor=30.0, progress=False, **options
    )
    broken = [row for row in done.epochs if "class 0" in row["action"]]
    assert broken, "without a constraint, class 0 breaks, and no balance of classes helps"
    assert done.stopped.epoch not in [row["epoch"] for row in broken]


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
    assert fit_to_size(Procedure(epochs=3), 12, USUAL).epochs == 3, (
        "a constant rate can stop anywhere"
    )


def test_narrower_models_take_a_larger_rate_unless_it_was_chosen() -> None:
    preferred = Procedure.from_plain({"method": "MATCH"})
    for inputs, factor in ((500, 2.0), (2000, 0.5), (10, 4.0), (10**6, 0.25)):
        found = fit_to_size(preferred, 1000, nn.Linear(inputs, 1))
        assert found.lr == pytest.approx(factor * preferred.lr)
        assert fit_to_size(MATCH, 1000, nn.Linear(inputs, 1)).lr == MATCH.lr
    assert fit_to_size(preferred, 1000, nn.Embedding(5, 7)).lr == preferred.lr


def test_a_floor_should_not_be_negative() -> None:
    with pytest.raises(InvalidInput, match="`floor`"):
        go(0, floor=-1.0)


def test_records_that_do_not_show_are_unlearned_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(calibration, "MIN_STEPS", 20)  # there is no distance to cover
    place = world(0)
    done = calibrate(
        place.ideal,
        forget=place.forget,
        retain=place.retain,
        val=place.val,
        device="cpu",
        level=0.999,
        progress=False,
    )
    assert done.stopped.status == "achieved"
    assert "does not show" in done.stopped.warnings[0]
    assert not same(bits(done.model), bits(place.ideal))


class KillAt(Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_step(self, run: Run) -> None:
        if run.step == self.epoch * run.steps_per_epoch + 1:
            raise KeyboardInterrupt


@pytest.mark.parametrize("epoch", [1, 4])
def test_a_killed_run_resumes_to_the_same_bits(epoch: int, tmp_path: Path) -> None:
    options: dict[str, Any] = {"lr": 2e-4, "max_epochs": 8}
    whole = finished(0, **options)
    kept: dict[str, Any] = options | {"checkpoint": tmp_path / "c"}
    with pytest.raises(KeyboardInterrupt):
        go(0, callbacks=[KillAt(epoch)], **kept)
    again = go(0, **kept)
    assert same(bits(again.model), bits(whole.model))
    assert again.stopped == whole.stopped
    plain = [{k: v for k, v in row.items() if "seconds" not in k} for row in again.epochs]
    assert plain == [{k: v for k, v in row.items() if "seconds" not in k} for row in whole.epochs]


def test_a_run_that_had_stopped_stays_stopped(tmp_path: Path) -> None:
    first = go(0, checkpoint=tmp_path / "c")
    again = go(0, checkpoint=tmp_path / "c")
    assert again.stopped == first.stopped
    assert len(again.epochs) == len(first.epochs)
    assert same(bits(again.model), bits(first.model))


def test_a_checkpoint_of_other_rules_is_refused(tmp_path: Path) -> None:
    go(0, max_epochs=1, lr=1e-5, checkpoint=tmp_path / "c")
    with pytest.raises(InvalidInput, match="other rules"):
        go(0, max_epochs=1, lr=1e-5, floor=1.0, checkpoint=tmp_path / "c")


class Own(Dataset):
    """A user's data set, one item at a time."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.zeros(2), index % 3


def test_labels_of_any_data() -> None:
    expected = [0, 1, 2, 0]
    assert labels_of(Own()).tolist() == expected
    assert labels_of(DataLoader(Own(), batch_size=3)).tolist() == expected
    assert labels_of(world(0).val)[:4].tolist() == expected


def test_epochs_should_be_some() -> None:
    with pytest.raises(InvalidInput, match="`epochs`"):
        go(0, max_epochs=0)
