"""Steer a run towards the target: speed up, slow down, roll back and stop, epoch by epoch."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from expunge._errors import Diverged, InvalidInput
from expunge.engine import Callback, Run
from expunge.engine._snapshots import Snapshot
from expunge.request.calibrate._comparison import Comparison
from expunge.request.calibrate._rules import Rules, epochs_to_go, speed_up
from expunge.request.calibrate._target import Target
from expunge.update import Linear

Action = Literal["go on", "faster", "mend", "rolled back", "stop"]
CompareModel = Callable[[nn.Module], Comparison | None]
"""Compares a model's treatment of forget and val; None if its outputs are not finite."""
Weights = dict[str, Tensor]


@dataclass
class ControllerState:
    """The controller's memory as plain values; it is part of the run's checkpoint."""

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
    """After each epoch: compare, keep the best model, and decide what to do next.

    - *stop* if forget and val are indistinguishable and utility is above the floor, either here or
      on the straight line from the initial weights to the current ones;
    - *faster* if the gap would not close in time: a higher rate up to its cap, then a higher α;
    - *mend* if the forget set is treated as it should be (or time runs out) but utility is below
      the floor: the rate is lowered, so that the steps on retain recover utility;
    - *rolled back* to the last good snapshot, at half the rate, if utility falls too deep or does
      not recover, if the run diverges, or if it forgot too much without losing utility;
    - *go on* otherwise.

    The best epoch is the one with the smallest :attr:`Comparison.distance` among those above the
    floor; epoch 0, the initial model, is one of them. A rate that led to a rollback is not reached
    again. Decisions depend on forget and val only.
    """

    def __init__(
        self,
        compare_model: CompareModel,
        before: Comparison,
        target: Target,
        rules: Rules,
        max_epochs: int,
    ) -> None:
        self.compare_model = compare_model
        self.before, self.target, self.rules = before, target, rules
        self.max_epochs = max_epochs
        self.state = ControllerState(best_distance=before.distance)
        self.state.gaps.append(_remaining_distance(before))
        self.state.doubts.append(self._excess_confidence(before))
        self.initial_weights: Weights = {}
        self.best_weights: Weights | None = None
        self.last_good: Snapshot | None = None

    def on_start(self, run: Run) -> None:
        if self.last_good is None:
            self.last_good = run.snapshot()
            self.initial_weights = copy_weights(run.model)
            self.state.lr_push = run.lr
            self.state.lr_limit = run.lr * self.rules.lr_cap
        if self.state.ended:
            run.stop()

    def on_epoch(self, run: Run) -> None:
        comparison = self.compare_model(run.model)
        lr, alpha = run.lr, alpha_of(run)
        action = self._decide(run, comparison)
        row: dict[str, Any] = dict(run.history.epochs[-1])
        if comparison is not None:
            row |= comparison.as_row()
            run.record(**comparison.as_row())
        _, low, high = self.target.accuracy
        row |= {"target_low": low, "target_high": high, "lr": lr, "alpha": alpha, "action": action}
        row |= {"best_epoch": self.state.best_epoch, "best_distance": self.state.best_distance}
        self.state.rows.append(row)

    def on_divergence(self, run: Run, error: Diverged) -> bool:
        self._roll_back(run, "the run diverged")
        return True

    def _decide(self, run: Run, comparison: Comparison | None) -> Action:
        if comparison is None:
            return self._roll_back(run, "the model's outputs were not finite")

        # Keep this model, or one on the way to it, if it is the best so far.
        above_floor = self._above_floor(comparison)
        if above_floor:
            self._keep_if_best(run, InterpolatedModel(1.0, {}, comparison))
        if comparison.over_forgotten:
            self._warn_over_forgotten(run, comparison)
        if not above_floor or comparison.over_forgotten:
            self._search_towards(run, comparison)

        # Stop, roll back, or choose the speed of the next epoch.
        if self.state.best_achieved:
            return self._stop(run, "Forgotten and unseen data are indistinguishable.")
        lost = self.before.utility - comparison.utility
        if lost > self.rules.depth:
            return self._roll_back(run, f"utility fell by {lost:.1f} points")
        if above_floor and not comparison.over_forgotten:
            self.last_good = run.snapshot()
        if self.state.mending:
            return self._recover_utility(run, comparison, above_floor)
        return self._continue_forgetting(run, comparison, above_floor)

    def _above_floor(self, comparison: Comparison) -> bool:
        return self.before.utility - comparison.utility <= self.rules.floor + 1e-9

    def _search_towards(self, run: Run, comparison: Comparison) -> None:
        """Look for a better model between the initial weights and weights that went too far."""
        if comparison.distance >= self.state.best_distance and not comparison.over_forgotten:
            return
        candidate = search_between(
            self.initial_weights,
            run.model,
            self.compare_model,
            lambda other: self._above_floor(other) and not other.over_forgotten,
        )
        if candidate is not None:
            self._keep_if_best(run, candidate)

    def _continue_forgetting(self, run: Run, comparison: Comparison, above_floor: bool) -> Action:
        if above_floor and comparison.over_forgotten:
            return self._roll_back(run, "more was forgotten than a model that never saw it would")
        late = run.epoch >= self.rules.horizon(self.max_epochs)
        forgotten = comparison.indistinguishable or comparison.over_forgotten
        if not above_floor and (late or forgotten):
            self.state.mending = 1
            run.set_lr(self.state.lr_push * self.rules.mend)
            return "mend"
        return self._adjust_speed(run, comparison)

    def _recover_utility(self, run: Run, comparison: Comparison, above_floor: bool) -> Action:
        self.state.mending += 1
        late = run.epoch >= self.rules.horizon(self.max_epochs)
        if above_floor and not comparison.over_forgotten and not late:
            self._reset_progress(comparison)
            run.set_lr(self.state.lr_push)
            self._strengthen(run, 2.0, rate=False)
            return "faster"
        if self.state.mending > self.rules.patience and not above_floor and not late:
            return self._roll_back(run, "utility stayed below the floor")
        return "mend"

    def _warn_over_forgotten(self, run: Run, comparison: Comparison) -> None:
        self.state.warnings.append(
            f"Epoch {run.epoch}: over-forgotten, {comparison.ua:.1f} % right on the forget set "
            f"where {self.target.accuracy.value:.1f} % is expected, loss attack at AUC "
            f"{comparison.attacks['loss'].value:.2f}."
        )

    def _keep_if_best(self, run: Run, candidate: InterpolatedModel) -> None:
        comparison = candidate.comparison
        better = comparison.distance < self.state.best_distance
        if better or (comparison.indistinguishable and not self.state.best_achieved):
            self.state.best_epoch, self.state.best_share = run.epoch, candidate.fraction
            self.state.best_distance = comparison.distance
            self.state.best_achieved = comparison.indistinguishable
            self.best_weights = candidate.weights or copy_weights(run.model)

    def _roll_back(self, run: Run, why: str) -> Action:
        assert self.last_good is not None
        self.state.rollbacks += 1
        run.restore(self.last_good)
        self.state.warnings.append(
            f"Epoch {run.epoch}: rolled back, to continue more slowly: {why}."
        )
        if self.state.rollbacks > self.rules.rollbacks:
            return self._stop(
                run, f"The run was rolled back too often, the last time because {why}."
            )
        self.state.lr_limit = 0.75 * self.state.lr_push
        self.state.lr_push *= 0.5
        run.set_lr(self.state.lr_push)
        self._reset_progress()
        return "rolled back"

    def _reset_progress(self, comparison: Comparison | None = None) -> None:
        """Start measuring the speed of forgetting again."""
        self.state.mending = self.state.waited = 0
        self.state.gaps = [] if comparison is None else [_remaining_distance(comparison)]
        self.state.doubts = [] if comparison is None else [self._excess_confidence(comparison)]

    def _adjust_speed(self, run: Run, comparison: Comparison) -> Action:
        # Progress so far, since the last change of speed.
        state = self.state
        state.waited += 1
        state.gaps.append(_remaining_distance(comparison))
        state.doubts.append(self._excess_confidence(comparison))
        left = self.rules.horizon(self.max_epochs) - run.epoch
        if state.waited < self.rules.pause or len(state.gaps) < 2 or left <= 0:
            return "go on"

        # Speed up if the gap would not close in the epochs left.
        needed = min(epochs_to_go(state.gaps), epochs_to_go(state.doubts) or math.inf)
        factor = speed_up(needed, left)
        if factor == 1.0 or not self._strengthen(run, factor):
            return "go on"
        state.waited = 0
        state.gaps, state.doubts = state.gaps[-1:], state.doubts[-1:]
        return "faster"

    def _strengthen(self, run: Run, factor: float, *, rate: bool = True) -> bool:
        """Raise the rate or, at its cap, α; whether either could be raised."""
        if rate and run.lr * factor <= self.state.lr_limit * (1.0 + 1e-9):
            self.state.lr_push = run.lr * factor
            run.set_lr(self.state.lr_push)
            return True
        alpha = alpha_of(run)
        if math.isnan(alpha) or alpha >= self.rules.alpha_cap:
            return False
        stronger = min(alpha * factor, self.rules.alpha_cap)
        run.set_aggregate(Linear(stronger, 1.0 - stronger))
        return True

    def _stop(self, run: Run, why: str) -> Action:
        self.state.ended = why
        run.stop()
        return "stop"

    def _excess_confidence(self, comparison: Comparison) -> float:
        """Confidence on the forget set beyond the expected one; it moves before UA does."""
        expected = self.target.confidence.value
        kept = 1.0 - sum(self.target.weights[label] for label in self.target.lost)
        return comparison.mean_confidence - (kept * expected if kept else 0.0)

    @property
    def _configuration(self) -> str:
        """What the decisions in a checkpoint depend on."""
        return f"{self.rules} level={self.target.level} epochs={self.max_epochs}"

    def state_dict(self) -> dict[str, Any]:
        return {
            "rules": self._configuration,
            "steering": asdict(self.state),
            "first": self.initial_weights,
            "best": self.best_weights,
            "good": None if self.last_good is None else self.last_good.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["rules"] != self._configuration:
            raise InvalidInput(
                "The checkpoint belongs to a run with other rules. Use another path, or delete it "
                f"to start again. (it has {state['rules']}, this run {self._configuration})"
            )
        self.state = ControllerState(**state["steering"])
        self.initial_weights, self.best_weights = state["first"], state["best"]
        self.last_good = None if state["good"] is None else Snapshot(**state["good"])


@dataclass(frozen=True, eq=False)
class InterpolatedModel:
    """A model on the line from the initial weights to later ones.

    Between a model and one fine-tuned from it accuracy changes smoothly (Wortsman et al., 2022).
    Where an epoch went too far, a point before it may be just right, and costs no training.
    """

    fraction: float
    weights: Weights
    comparison: Comparison


@torch.no_grad()
def search_between(
    initial: Weights,
    model: nn.Module,
    compare_model: CompareModel,
    acceptable: Callable[[Comparison], bool],
    *,
    halvings: int = 5,
) -> InterpolatedModel | None:
    """The best ``acceptable`` model between ``initial`` and the weights of ``model``, by bisection.

    Fraction 0 is assumed to be acceptable and 1 not to be. Returns the acceptable model with the
    smallest distance among those tried, or None. The weights of ``model`` are restored.
    """
    final = copy_weights(model)
    best: InterpolatedModel | None = None
    low, high = 0.0, 1.0
    for _ in range(halvings):
        fraction = 0.5 * (low + high)
        weights = interpolate(initial, final, fraction)
        model.load_state_dict(weights)
        comparison = compare_model(model)
        if comparison is None or not acceptable(comparison):
            high = fraction
            continue
        low = fraction
        if best is None or comparison.distance < best.comparison.distance:
            best = InterpolatedModel(fraction, weights, comparison)
        if comparison.indistinguishable:
            break
    model.load_state_dict(final)
    return best


def interpolate(initial: Weights, final: Weights, fraction: float) -> Weights:
    """(1 − t)·initial + t·final; integers (counters) are those of ``final``."""
    return {
        name: torch.lerp(initial[name], value, fraction) if value.is_floating_point() else value
        for name, value in final.items()
    }


def copy_weights(model: nn.Module) -> Weights:
    """A copy of all weights and buffers."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _remaining_distance(comparison: Comparison) -> float:
    """The distance left: 0 where forget and val are indistinguishable."""
    return max(comparison.distance - 1.0, 0.0)


def alpha_of(run: Run) -> float:
    """α of the linear aggregation; NaN for another."""
    aggregate = run.update.aggregate
    return aggregate.alpha if isinstance(aggregate, Linear) else math.nan
