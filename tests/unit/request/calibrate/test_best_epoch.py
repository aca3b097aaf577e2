"""Which epoch of a run is kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import nn

from expunge import InvalidInput
from expunge.engine import History
from expunge.evaluation import Estimate, Predictions
from expunge.request.calibrate._best_epoch import BestEpoch, Look
from expunge.request.calibrate._comparison import Comparison
from expunge.request.calibrate._permutation_test import PermutedStatistic
from expunge.request.calibrate._target import Target, estimate_target
from expunge.update import Linear

NOTHING = PermutedStatistic(0.0, 0.0, 0.0)
VAL = Predictions(torch.eye(2).repeat(20, 1), torch.arange(40) % 2)
TARGET: Target = estimate_target(VAL, torch.zeros(10, dtype=torch.int64))


def compared(distance: float, utility: float) -> Comparison:
    half = dict.fromkeys(("confidence", "entropy", "loss"), Estimate(0.5, 0.4, 0.6))
    return Comparison(
        ua=90.0,
        va=utility,
        utility=utility,
        matched=utility,
        gap=0.0,
        confidence_ks=NOTHING,
        entropy_ks=NOTHING,
        attacks=half,
        distance=distance,
        indistinguishable=distance <= 1.0,
        over_forgotten=False,
        reasons=(),
        mean_confidence=0.9,
        mean_entropy=0.1,
    )


@dataclass
class FakeRun:
    """A run that does nothing; its weight is the number of its epoch."""

    epoch: int = 0
    lr: float = 0.1
    stopped: bool = False
    history: History = field(default_factory=History)
    model: nn.Module = field(default_factory=lambda: nn.Linear(1, 1, bias=False))

    @property
    def update(self) -> Any:
        return type("Update", (), {"aggregate": Linear(0.5, 0.5)})

    def record(self, **values: float) -> None:
        self.history.epochs[-1].update(values)

    def stop(self) -> None:
        self.stopped = True


def watched(looks: list[Look | None], **options: Any) -> tuple[BestEpoch, FakeRun]:
    run = FakeRun()
    options = {"floor": 2.0, "epochs": len(looks), "stop_on_arrival": False} | options
    watch = BestEpoch(lambda _: looks[run.epoch - 1], compared(9.0, 90.0), TARGET, **options)
    while run.epoch < len(looks) and not run.stopped:
        run.epoch += 1
        run.history.epochs.append({"epoch": run.epoch})
        nn.init.constant_(run.model.weight, run.epoch)  # type: ignore[arg-type]
        watch.on_epoch(run)  # type: ignore[arg-type]
    return watch, run


def looks(*values: tuple[float, ...]) -> list[Look | None]:
    """Of distance, utility, and what the worst class lost, if anything."""
    return [Look(compared(*each[:2]), (), *each[2:]) for each in values]


@pytest.mark.parametrize(
    ("course", "best"),
    [
        ([(3.0, 90.0), (0.9, 89.0), (0.5, 89.5)], 3),
        ([(0.9, 90.0), (0.4, 86.0), (0.5, 87.0)], 1),  # three points less are not worth it
        ([(0.9, 89.5), (0.5, 89.0)], 2),  # what barely arrives may not pass the audit
        ([(0.6, 90.0, 1.0), (0.5, 90.0, 5.0)], 1),  # a class that lost more
        ([(0.5, 89.0), (0.5, 89.0)], 2),  # of equals the later
        ([(5.0, 90.0), (2.0, 88.0), (3.0, 90.0)], 2),  # none arrives: the nearest
        ([(1.5, 90.0), (0.9, 88.5), (1.1, 90.0)], 2),  # only one arrives
        ([(9.5, 90.0), (12.0, 90.0)], 0),  # none is better than the model before
    ],
)
def test_the_nearest_epoch_that_lost_least_is_kept(
    course: list[tuple[float, ...]], best: int
) -> None:
    watch, _ = watched(looks(*course))
    assert watch.state.best_epoch == best
    if best:
        assert watch.best_weights is not None
        assert float(watch.best_weights["weight"]) == best
    else:
        assert watch.best_weights is None


def test_an_epoch_that_broke_something_is_not_kept_and_says_so() -> None:
    broken = Look(compared(0.1, 90.0), ("class 3",))
    watch, _ = watched([*looks((2.0, 90.0)), broken])
    assert watch.state.best_epoch == 1
    assert [row["action"] for row in watch.state.rows] == ["", "class 3"]


def test_a_constant_rate_stops_on_arrival() -> None:
    watch, run = watched(looks((2.0, 90.0), (0.9, 90.0), (0.1, 90.0)), stop_on_arrival=True)
    assert run.epoch == watch.state.best_epoch == 2


def test_outputs_that_are_not_finite_end_the_run() -> None:
    watch, run = watched([*looks((2.0, 90.0)), None, *looks((0.1, 90.0))])
    assert run.epoch == 2
    assert watch.state.best_epoch == 1
    assert "not finite" in watch.state.ended


def test_long_runs_are_looked_at_fifteen_times_most_often_near_their_end() -> None:
    watch, _ = watched(looks(*[(2.0, 90.0)] * 160))
    epochs = [row["epoch"] for row in watch.state.rows]
    assert len(epochs) == 15
    assert epochs[-1] == 160
    assert epochs[1] - epochs[0] == 2 * (epochs[-1] - epochs[-2])


def test_the_state_is_kept_and_other_rules_are_refused() -> None:
    watch, _ = watched(looks((0.5, 90.0)))
    again = BestEpoch(lambda _: None, compared(9.0, 90.0), TARGET, 2.0, 1, stop_on_arrival=False)
    again.load_state_dict(watch.state_dict())
    assert again.state == watch.state
    other = BestEpoch(lambda _: None, compared(9.0, 90.0), TARGET, 1.0, 1, stop_on_arrival=False)
    with pytest.raises(InvalidInput, match="other rules"):
        other.load_state_dict(watch.state_dict())
