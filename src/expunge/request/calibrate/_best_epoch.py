"""Watch a run whose method has targets of its own: compare as it goes, and keep the best epoch."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from expunge._errors import Diverged, InvalidInput
from expunge.engine import Callback, Run
from expunge.request.calibrate._comparison import Comparison
from expunge.request.calibrate._controller import (
    CompareModel,
    ControllerState,
    Weights,
    alpha_of,
    copy_weights,
)
from expunge.request.calibrate._target import Target

LOOKS = 20
"""A run is compared about so many times, however many epochs it takes."""


class BestEpoch(Callback):
    """Compares forget and val during a run, and keeps the best model above the utility floor.

    Nothing is steered: the method aims at the outputs on unseen data by itself, and its rate falls
    to 0. So the run goes to its end. The last epoch at which forget and val are indistinguishable
    is taken; if there is none, the one with the smallest :attr:`Comparison.distance`.
    """

    def __init__(
        self,
        compare_model: CompareModel,
        before: Comparison,
        target: Target,
        floor: float,
        max_epochs: int,
    ) -> None:
        self.compare_model = compare_model
        self.before, self.target, self.floor = before, target, floor
        self.max_epochs = max_epochs
        self.state = ControllerState(best_distance=before.distance)
        self.best_weights: Weights | None = None

    def on_start(self, run: Run) -> None:
        if self.state.ended:
            run.stop()

    def on_epoch(self, run: Run) -> None:
        stride = max(1, self.max_epochs // LOOKS)
        if run.epoch % stride and run.epoch < self.max_epochs:
            return
        comparison = self.compare_model(run.model)
        if comparison is None:
            self._end(run, "The model's outputs were not finite.")
            return
        values = comparison.as_row()
        run.record(**values)
        if self.before.utility - comparison.utility <= self.floor + 1e-9:
            self._keep_if_best(run, comparison)
        _, low, high = self.target.accuracy
        ended = run.epoch == self.max_epochs
        self.state.rows.append(
            dict(run.history.epochs[-1])
            | {"target_low": low, "target_high": high, "lr": run.lr, "alpha": alpha_of(run)}
            | {"action": "stop" if ended else "go on"}
            | {"best_epoch": self.state.best_epoch, "best_distance": self.state.best_distance}
        )

    def on_divergence(self, run: Run, error: Diverged) -> bool:
        self._end(run, "The run diverged.")
        return True

    def _keep_if_best(self, run: Run, comparison: Comparison) -> None:
        state = self.state
        closer = comparison.distance < state.best_distance and not state.best_achieved
        if comparison.indistinguishable or closer:
            state.best_epoch, state.best_distance = run.epoch, comparison.distance
            state.best_achieved = comparison.indistinguishable
            self.best_weights = copy_weights(run.model)

    def _end(self, run: Run, why: str) -> None:
        self.state.ended = why
        self.state.warnings.append(f"Epoch {run.epoch}: {why}")
        run.stop()

    @property
    def _configuration(self) -> str:
        """What the choices in a checkpoint depend on."""
        return f"floor={self.floor} level={self.target.level} epochs={self.max_epochs}"

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
        self.state = ControllerState(**state["state"])
        self.best_weights = state["best"]
