"""Watch a run: compare forget and val as it goes, and keep the best epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from expunge._errors import Diverged, InvalidInput
from expunge.engine import Callback, Run
from expunge.methods._refreshes import is_refresh
from expunge.request.calibrate._comparison import Comparison
from expunge.request.calibrate._target import Target
from expunge.update import Linear


@dataclass(frozen=True)
class Look:
    """How a model treats forget and val, and what it broke or lost on val.

    ``broken`` are sentences; ``worst_class`` is what the class that lost most has lost, in points,
    and ``beyond_floor`` by how much one has lost more than it may, were there no chance. All of it
    holds with the parameters in ``balanced`` in place of those of the model.
    """

    comparison: Comparison
    broken: tuple[str, ...] = ()
    worst_class: float = 0.0
    beyond_floor: float = 0.0
    balanced: Mapping[str, Tensor] = field(default_factory=dict)


LookAt = Callable[[Run], Look | None]
"""Looks at the model of a run; None if its outputs are not finite."""


@dataclass
class BestEpochState:
    """What is known of the run so far, as plain values; it is part of the run's checkpoint."""

    best_epoch: int = 0
    best_distance: float = math.inf
    best_achieved: bool = False
    best_cost: float = math.inf
    """That of the best epoch that achieved the aim; see :meth:`BestEpoch.cost`."""
    rows: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    ended: str = ""


class BestEpoch(Callback):
    """Compares forget and val during a run, and keeps the best model that broke nothing.

    Of the epochs at which forget and val are indistinguishable, the one with the smallest
    :meth:`cost` is taken. If there is none, the one with the smallest distance. Epoch 0, the
    initial model, is one of them.
    Nothing is steered. A rate that falls to 0 is made to be run to its end; with any other one the
    run ends where forget and val are indistinguishable (``stop_on_arrival``). The first such epoch
    is barely so: with ``pass_the_best``, every epoch is compared, and the run ends at the first one
    that is no better.
    """

    def __init__(
        self,
        look_at: LookAt,
        before: Comparison,
        target: Target,
        floor: float,
        epochs: int,
        *,
        stop_on_arrival: bool,
        pass_the_best: bool = False,
    ) -> None:
        self.look_at = look_at
        self.before = before
        self.target, self.floor, self.epochs = target, floor, epochs
        self.stop_on_arrival, self.pass_the_best = stop_on_arrival, pass_the_best
        self.state = BestEpochState(best_distance=before.distance)
        self.best_weights: dict[str, Tensor] | None = None

    def on_start(self, run: Run) -> None:
        if self.state.ended:
            run.stop()

    def on_epoch(self, run: Run) -> None:
        # A run that may end early is looked at after every epoch; another one where the method
        # passes the same data through the model before the next epoch.
        is_due = self.stop_on_arrival or is_refresh(run.epoch + 1, self.epochs)
        if run.epoch < self.epochs and not is_due:
            return
        look = self.look_at(run)
        if look is None:
            self._fail(run, "The model's outputs were not finite.")
            return
        run.record(**look.comparison.as_row())
        if not look.broken:
            self._keep_if_best(run, look)
        passed = run.epoch > self.state.best_epoch or not self.pass_the_best
        if self.state.best_achieved and self.stop_on_arrival and passed:
            self.state.ended = "Forgotten and unseen data are indistinguishable."
            run.stop()
        _, low, high = self.target.accuracy
        self.state.rows.append(
            dict(run.history.epochs[-1])
            | {"target_low": low, "target_high": high, "lr": run.lr, "alpha": _alpha(run)}
            | {"best_epoch": self.state.best_epoch, "best_distance": self.state.best_distance}
            | {"action": "; ".join(look.broken)}
        )

    def on_divergence(self, run: Run, error: Diverged) -> bool:
        self._fail(run, "The run diverged.")
        return True

    def cost(self, look: Look) -> float:
        """6 × distance + points of utility lost + ¼ × points lost in the class that lost most
        + points that a class has lost beyond its floor.

        The audit has data of its own: what is barely indistinguishable on val is often told apart
        there (on CIFAR-10, distances of 0.76 and 0.92 on val were 1.5 and 1.2 on test). Classes go
        up and down by chance, and weigh less; but an epoch without one beyond its floor is better.
        """
        lost = max(self.before.utility - look.comparison.utility, 0.0)
        of_classes = 0.25 * max(look.worst_class, 0.0) + max(look.beyond_floor, 0.0)
        return 6.0 * look.comparison.distance + lost + of_classes

    def _keep_if_best(self, run: Run, look: Look) -> None:
        state, comparison, cost = self.state, look.comparison, self.cost(look)
        if comparison.indistinguishable:
            better = cost <= state.best_cost
            state.best_cost = min(cost, state.best_cost)
        else:
            better = comparison.distance < state.best_distance and not state.best_achieved
        if better:
            state.best_epoch, state.best_distance = run.epoch, comparison.distance
            state.best_achieved = comparison.indistinguishable
            self.best_weights = {**_copy_weights(run), **look.balanced}

    def _fail(self, run: Run, why: str) -> None:
        self.state.ended = why
        self.state.warnings.append(f"Epoch {run.epoch}: {why}")
        run.stop()

    @property
    def _configuration(self) -> str:
        """What the choices in a checkpoint depend on."""
        return f"floor={self.floor} level={self.target.level} epochs={self.epochs}"

    def state_dict(self) -> dict[str, Any]:
        return {
            "rules": self._configuration,
            "state": asdict(self.state),
            "best": self.best_weights,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["rules"] != self._configuration:
            raise InvalidInput(
                "The checkpoint belongs to a run with other rules. Use another path, or delete it "
                f"to start again. (it has {state['rules']}, this run {self._configuration})"
            )
        self.state = BestEpochState(**state["state"])
        self.best_weights = state["best"]


def _alpha(run: Run) -> float:
    """α of the linear aggregation; NaN for another one."""
    aggregate = run.update.aggregate
    return aggregate.alpha if isinstance(aggregate, Linear) else math.nan


@torch.no_grad()
def _copy_weights(run: Run) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in run.model.state_dict().items()}
