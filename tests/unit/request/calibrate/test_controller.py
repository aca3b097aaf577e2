"""The controller's decisions, on made-up comparisons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from expunge._errors import Diverged
from expunge.engine._snapshots import Snapshot
from expunge.evaluation import Predictions
from expunge.request.calibrate._comparison import Comparison, compare
from expunge.request.calibrate._controller import Controller, interpolate, search_between
from expunge.request.calibrate._rules import Rules
from expunge.request.calibrate._target import estimate_target
from expunge.update import Aggregate, Linear, Update

RANDOM = torch.Generator().manual_seed(0)
VAL = Predictions(torch.randn(60, 3, generator=RANDOM), torch.arange(60) % 3)
TARGET = estimate_target(VAL, torch.arange(12) % 3)
BASE = compare(VAL.take(range(12)), VAL, TARGET, shuffles=20)


def comparison(distance: float, utility: float = 90.0, **changes: Any) -> Comparison:
    chosen = {"indistinguishable": distance <= 1.0, "over_forgotten": False} | changes
    return replace(BASE, distance=distance, utility=utility, mean_confidence=5.0, **chosen)


class FakeRun:
    """As much of a run as the controller touches."""

    def __init__(self) -> None:
        self.model = nn.Linear(1, 1, bias=False)
        self.update = Update("focus", Linear(0.05, 0.95))
        self.lr, self.epoch, self.stopped = 1e-3, 0, False
        self.history = self
        self.epochs: list[dict[str, float]] = [{}]

    def set_lr(self, lr: float) -> None:
        self.lr = lr

    def set_aggregate(self, aggregate: Aggregate) -> None:
        self.update.aggregate = aggregate

    def snapshot(self) -> Snapshot:
        return Snapshot({"weight": self.model.weight.detach().clone()}, {}, {})

    def restore(self, snapshot: Snapshot) -> None:
        self.model.load_state_dict(snapshot.model)

    def record(self, **values: float) -> None:
        pass

    def stop(self) -> None:
        self.stopped = True


class Course:
    """A run whose epoch k leaves the weight k and behaves as the k-th of a list says."""

    def __init__(self, before: Comparison, epochs: int = 20, **rules: Any) -> None:
        self.run = FakeRun()
        self.set(0.0)
        self.between: Any = lambda weight: None
        self.now: Comparison | None = None
        self.controller = Controller(self.look, before, TARGET, Rules(**rules), epochs)
        self.controller.on_start(self.run)  # type: ignore[arg-type]

    def set(self, weight: float) -> None:
        nn.init.constant_(self.run.model.weight, weight)

    @property
    def weight(self) -> float:
        return self.run.model.weight.item()

    def look(self, model: nn.Module) -> Comparison | None:
        weight = model.weight.item()
        return self.now if weight == self.run.epoch else self.between(weight)

    def epoch(self, now: Comparison | None) -> str:
        self.run.epoch += 1
        self.set(self.run.epoch)
        self.now = now
        self.controller.on_epoch(self.run)  # type: ignore[arg-type]
        return str(self.controller.state.rows[-1]["action"])


def test_stops_where_forget_and_val_are_indistinguishable() -> None:
    course = Course(comparison(9.0))
    assert course.epoch(comparison(5.0)) == "go on"
    assert course.epoch(comparison(0.9)) == "stop"
    assert course.run.stopped
    assert course.controller.state.best_epoch == 2
    assert float(course.controller.best_weights["weight"]) == 2.0  # type: ignore[index]


def test_keeps_the_nearest_epoch_above_the_floor() -> None:
    course = Course(comparison(9.0), floor=2.0)
    for distance, utility in ((4.0, 89.0), (3.0, 87.0), (6.0, 89.0)):
        course.epoch(comparison(distance, utility))
    assert course.controller.state.best_epoch == 1


def test_goes_faster_where_the_gap_would_not_close_in_time() -> None:
    course = Course(comparison(9.0), epochs=20, pause=2)
    actions = [course.epoch(comparison(9.0)) for _ in range(4)]
    assert actions == ["go on", "faster", "go on", "faster"]
    assert course.run.lr == pytest.approx(4e-3)


def test_does_not_hurry_where_it_will_arrive() -> None:
    course = Course(comparison(9.0), epochs=20)
    assert [course.epoch(comparison(d)) for d in (7.5, 6.0, 4.5)] == ["go on"] * 3
    assert course.run.lr == 1e-3


def test_goes_back_where_utility_collapses() -> None:
    course = Course(comparison(9.0), depth=10.0)
    course.epoch(comparison(8.0))
    assert course.epoch(comparison(3.0, utility=70.0)) == "rolled back"
    assert course.weight == 1.0
    assert course.run.lr == 5e-4


def test_a_rate_that_led_back_is_not_reached_again() -> None:
    course = Course(comparison(9.0), epochs=40, depth=10.0, pause=1)
    course.epoch(comparison(3.0, utility=70.0))
    for _ in range(6):
        course.epoch(comparison(9.0))
    assert course.run.lr < 1e-3
    assert course.run.update.aggregate.alpha > 0.05  # type: ignore[attr-defined]


def test_goes_back_where_too_much_was_forgotten_and_says_so() -> None:
    course = Course(comparison(9.0))
    course.epoch(comparison(4.0))
    assert course.epoch(comparison(5.0, over_forgotten=True)) == "rolled back"
    assert course.weight == 1.0
    assert any("over-forgotten" in warning for warning in course.controller.state.warnings)


def test_mends_where_forgetting_is_done_and_utility_is_below_the_floor() -> None:
    course = Course(comparison(9.0))
    assert course.epoch(comparison(0.8, utility=80.0)) == "mend"
    assert course.run.lr == pytest.approx(2e-4)
    assert course.epoch(comparison(0.8, utility=85.0)) == "mend"
    assert course.epoch(comparison(0.8, utility=89.0)) == "stop"


def test_pushes_harder_where_mending_brought_memory_back() -> None:
    course = Course(comparison(9.0))
    course.epoch(comparison(0.8, utility=80.0))
    assert course.epoch(comparison(3.0, utility=89.0)) == "faster"
    assert course.run.lr == 1e-3
    assert course.run.update.aggregate == Linear(0.1, 0.9)


def test_goes_back_where_mending_does_not_help() -> None:
    course = Course(comparison(9.0), epochs=60, patience=3)
    actions = [course.epoch(comparison(0.8, utility=80.0)) for _ in range(4)]
    assert actions == ["mend", "mend", "mend", "rolled back"]
    assert course.weight == 0.0


def test_part_of_the_way_may_be_right() -> None:
    course = Course(comparison(9.0))
    course.between = lambda weight: comparison(0.9) if 0.6 < weight < 0.8 else comparison(4.0)
    assert course.epoch(comparison(0.8, utility=80.0)) == "stop"
    assert course.controller.state.best_share == 0.75
    assert course.weight == 1.0


def test_divergence_goes_back_a_bounded_number_of_times() -> None:
    course = Course(comparison(9.0), rollbacks=2)
    for _ in range(3):
        course.set(7.0)
        assert course.controller.on_divergence(course.run, Diverged(""))  # type: ignore[arg-type]
        assert course.weight == 0.0
    assert course.run.stopped
    assert course.controller.best_weights is None


def test_outputs_that_are_not_finite_go_back() -> None:
    course = Course(comparison(9.0))
    assert course.epoch(None) == "rolled back"
    assert course.weight == 0.0


def test_state_survives_a_checkpoint() -> None:
    course, other = Course(comparison(9.0)), Course(comparison(9.0))
    course.epoch(comparison(4.0))
    other.controller.load_state_dict(course.controller.state_dict())
    assert other.controller.state == course.controller.state
    assert float(other.controller.best_weights["weight"]) == 1.0  # type: ignore[index]


def test_a_mix_is_linear_and_counters_are_of_now() -> None:
    first = {"w": torch.tensor([0.0, 2.0]), "n": torch.tensor(1)}
    last = {"w": torch.tensor([4.0, 4.0]), "n": torch.tensor(9)}
    mixed = interpolate(first, last, 0.25)
    assert mixed["w"].tolist() == [1.0, 2.5]
    assert int(mixed["n"]) == 9


def test_the_line_is_searched_by_halves_and_the_model_put_back() -> None:
    model = nn.Linear(1, 1, bias=False)
    nn.init.constant_(model.weight, 1.0)
    fractions: list[float] = []

    def look(net: nn.Module) -> Comparison:
        fractions.append(net.weight.item())
        return comparison(5.0 - fractions[-1], utility=90.0 - 10.0 * fractions[-1])

    point = search_between(
        {"weight": torch.zeros(1, 1)}, model, look, lambda x: x.utility >= 84.0, halvings=4
    )
    assert fractions == [0.5, 0.75, 0.625, 0.5625]
    assert point is not None
    assert point.fraction == 0.5625
    assert model.weight.item() == 1.0
