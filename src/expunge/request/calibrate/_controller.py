"""Steers a run to the target: faster, slower, back, and stop, by what val and forget show."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from torch import nn

from expunge._errors import Diverged, InvalidInput
from expunge.engine import Callback, Run
from expunge.engine._snapshots import Snapshot
from expunge.request.calibrate._comparison import Behaviour
from expunge.request.calibrate._line_search import Point, Weights, copied, search_line
from expunge.request.calibrate._rules import Rules, epochs_to_go, speed_up
from expunge.request.calibrate._target import Target
from expunge.update import Linear

Action = Literal["go on", "faster", "mend", "rolled back", "stop"]
Look = Callable[[nn.Module], Behaviour | None]
"""The behaviour of a model; None where its outputs are not finite."""


@dataclass
class Steering:
    """What the controller remembers, as plain values: it is kept in the run's checkpoint."""

    best_epoch: int = 0
    best_share: float = 1.0
    best_distance: float = math.inf
    best_achieved: bool = False
    mending: int = 0
    rollbacks: int = 0
    waited: int = 0
    lr_push: float = 0.0
    lr_limit: float = math.inf
    gaps: list[float] = field(default_factory=list)
    doubts: list[float] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    ended: str = ""


class Controller(Callback):
    """After each epoch: look, keep the best, and decide.

    - *stop*, where forget and val are indistinguishable and utility is above the floor, there or
      on the straight line from the given weights to there;
    - *faster*, where the gap would not close in time: a higher rate up to its cap, then a higher α;
    - *mend*, where the forget set is as it should be (or time runs out) and utility is below the
      floor: the rate goes down, so that the steps on retain bring utility back;
    - *rolled back* to the last good snapshot, at half the rate, where utility falls deep or mending
      does not help, the run diverges, or it forgot more than it should at no loss of utility;
    - *go on* otherwise.

    The best epoch is that of the smallest :attr:`Behaviour.distance` among those above the floor;
    epoch 0, the model as it was given, is one of them. A rate that led to a rollback is not
    reached again. Decisions look at forget and val only.
    """

    def __init__(
        self, look: Look, before: Behaviour, target: Target, rules: Rules, max_epochs: int
    ) -> None:
        self.look, self.before, self.target, self.rules = look, before, target, rules
        self.max_epochs = max_epochs
        self.state = Steering(best_distance=before.distance)
        self.state.gaps.append(_gap(before))
        self.state.doubts.append(self._doubt(before))
        self.first: Weights = {}
        self.best: Weights | None = None
        self.good: Snapshot | None = None

    def on_start(self, run: Run) -> None:
        if self.good is None:
            self.good = run.snapshot()
            self.first = copied(run.model)
            self.state.lr_push = run.lr
            self.state.lr_limit = run.lr * self.rules.lr_cap
        if self.state.ended:
            run.stop()

    def on_epoch(self, run: Run) -> None:
        seen = self.look(run.model)
        lr, alpha = run.lr, _alpha(run)
        action = self._decide(run, seen)
        row: dict[str, Any] = dict(run.history.epochs[-1])
        if seen is not None:
            row |= seen.as_row()
            run.record(**seen.as_row())
        _, low, high = self.target.accuracy
        row |= {"target_low": low, "target_high": high, "lr": lr, "alpha": alpha, "action": action}
        row |= {"best_epoch": self.state.best_epoch, "best_distance": self.state.best_distance}
        self.state.rows.append(row)

    def on_divergence(self, run: Run, error: Diverged) -> bool:
        self._roll_back(run, "the run diverged")
        return True

    def _decide(self, run: Run, seen: Behaviour | None) -> Action:
        if seen is None:
            return self._roll_back(run, "the model's outputs were not finite")
        lost = self.before.utility - seen.utility
        kept = self._keeps(seen)
        if kept:
            self._keep(run, Point(1.0, {}, seen))
        if seen.over_forgotten:
            self._warn(run, seen)
        if not kept or seen.over_forgotten:
            self._look_between(run, seen)
        if self.state.best_achieved:
            return self._stop(run, "Forgotten and unseen data are indistinguishable.")
        if lost > self.rules.depth:
            return self._roll_back(run, f"utility fell by {lost:.1f} points")
        if kept and not seen.over_forgotten:
            self.good = run.snapshot()
        return self._mend(run, seen, kept) if self.state.mending else self._push(run, seen, kept)

    def _keeps(self, seen: Behaviour) -> bool:
        return self.before.utility - seen.utility <= self.rules.floor + 1e-9

    def _look_between(self, run: Run, seen: Behaviour) -> None:
        """Part of the way from the given model to a place that is too far."""
        if seen.distance >= self.state.best_distance and not seen.over_forgotten:
            return
        point = search_line(
            run.model, self.first, self.look, lambda x: self._keeps(x) and not x.over_forgotten
        )
        if point is not None:
            self._keep(run, point)

    def _push(self, run: Run, seen: Behaviour, kept: bool) -> Action:
        if kept and seen.over_forgotten:
            return self._roll_back(run, "more was forgotten than a model that never saw it would")
        late = run.epoch >= self.rules.horizon(self.max_epochs)
        if not kept and (late or seen.indistinguishable or seen.over_forgotten):
            self.state.mending = 1
            run.set_lr(self.state.lr_push * self.rules.mend)
            return "mend"
        return self._hurry(run, seen)

    def _mend(self, run: Run, seen: Behaviour, kept: bool) -> Action:
        self.state.mending += 1
        late = run.epoch >= self.rules.horizon(self.max_epochs)
        if kept and not seen.over_forgotten and not late:
            self._restart(seen)
            run.set_lr(self.state.lr_push)
            self._strengthen(run, 2.0, rate=False)
            return "faster"
        if self.state.mending > self.rules.patience and not kept and not late:
            return self._roll_back(run, "utility stayed below the floor")
        return "mend"

    def _warn(self, run: Run, seen: Behaviour) -> None:
        self.state.warnings.append(
            f"Epoch {run.epoch}: over-forgotten, {seen.ua:.1f} % right on the forget set where "
            f"{self.target.accuracy.value:.1f} % is expected, loss attack at AUC "
            f"{seen.attacks['loss'].value:.2f}."
        )

    def _keep(self, run: Run, point: Point) -> None:
        seen = point.seen
        better = seen.distance < self.state.best_distance
        if better or (seen.indistinguishable and not self.state.best_achieved):
            self.state.best_epoch, self.state.best_share = run.epoch, point.share
            self.state.best_distance = seen.distance
            self.state.best_achieved = seen.indistinguishable
            self.best = point.weights or copied(run.model)

    def _roll_back(self, run: Run, why: str) -> Action:
        assert self.good is not None
        self.state.rollbacks += 1
        run.restore(self.good)
        self.state.warnings.append(f"Epoch {run.epoch}: went back, to go on more slowly: {why}.")
        if self.state.rollbacks > self.rules.rollbacks:
            return self._stop(run, f"The run went back too often, at last because {why}.")
        self.state.lr_limit = 0.75 * self.state.lr_push
        self.state.lr_push *= 0.5
        run.set_lr(self.state.lr_push)
        self._restart()
        return "rolled back"

    def _restart(self, seen: Behaviour | None = None) -> None:
        """Push again, and measure the speed anew."""
        self.state.mending = self.state.waited = 0
        self.state.gaps = [] if seen is None else [_gap(seen)]
        self.state.doubts = [] if seen is None else [self._doubt(seen)]

    def _hurry(self, run: Run, seen: Behaviour) -> Action:
        self._measure(run, seen)
        left = self.rules.horizon(self.max_epochs) - run.epoch
        if self.state.waited < self.rules.pause or len(self.state.gaps) < 2 or left <= 0:
            return "go on"
        needed = min(epochs_to_go(self.state.gaps), epochs_to_go(self.state.doubts) or math.inf)
        factor = speed_up(needed, left)
        if factor == 1.0 or not self._strengthen(run, factor):
            return "go on"
        self.state.waited = 0
        self.state.gaps, self.state.doubts = self.state.gaps[-1:], self.state.doubts[-1:]
        return "faster"

    def _measure(self, run: Run, seen: Behaviour) -> None:
        self.state.waited += 1
        self.state.gaps.append(_gap(seen))
        self.state.doubts.append(self._doubt(seen))

    def _strengthen(self, run: Run, factor: float, *, rate: bool = True) -> bool:
        if rate and run.lr * factor <= self.state.lr_limit * (1.0 + 1e-9):
            self.state.lr_push = run.lr * factor
            run.set_lr(self.state.lr_push)
            return True
        alpha = _alpha(run)
        if math.isnan(alpha) or alpha >= self.rules.alpha_cap:
            return False
        stronger = min(alpha * factor, self.rules.alpha_cap)
        run.set_aggregate(Linear(stronger, 1.0 - stronger))
        return True

    def _stop(self, run: Run, why: str) -> Action:
        self.state.ended = why
        run.stop()
        return "stop"

    def _doubt(self, seen: Behaviour) -> float:
        """How much surer the model is of the forget set than it should be: moves before UA does."""
        aim = self.target.confidence.value
        kept = 1.0 - sum(self.target.weights[label] for label in self.target.lost)
        return seen.mean_confidence - (kept * aim if kept else 0.0)

    @property
    def _configuration(self) -> str:
        """What a checkpoint's decisions rest on."""
        return f"{self.rules} level={self.target.level} epochs={self.max_epochs}"

    def state_dict(self) -> dict[str, Any]:
        return {
            "rules": self._configuration,
            "steering": asdict(self.state),
            "first": self.first,
            "best": self.best,
            "good": None if self.good is None else self.good.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["rules"] != self._configuration:
            raise InvalidInput(
                "The checkpoint belongs to a run with other rules. Use another path, or delete it "
                f"to start anew. (it has {state['rules']}, this run {self._configuration})"
            )
        self.state = Steering(**state["steering"])
        self.first, self.best = state["first"], state["best"]
        self.good = None if state["good"] is None else Snapshot(**state["good"])


def _gap(seen: Behaviour) -> float:
    """What is left of the way: 0 where forget and val are indistinguishable."""
    return max(seen.distance - 1.0, 0.0)


def _alpha(run: Run) -> float:
    aggregate = run.update.aggregate
    return aggregate.alpha if isinstance(aggregate, Linear) else math.nan
