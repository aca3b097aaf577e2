"""Hooks for users into a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from expunge._errors import Diverged
    from expunge.engine._run import Run


class Callback:
    """Hooks into a run: override the ones you need.

    ``run`` offers ``model``, ``optimizer``, ``epoch``, ``step``, ``history``, ``losses``,
    ``record(name=value)`` to add to the epoch's row, and ``stop()``. Time spent in callbacks is not
    counted in ``history.seconds``, and the random numbers they draw do not disturb the run.
    """

    def on_start(self, run: Run) -> None:
        """Before the first step (or the first after a resume)."""

    def on_step(self, run: Run) -> None:
        """After each step."""

    def on_epoch(self, run: Run) -> None:
        """After each epoch, when its row is in ``run.history.epochs``."""

    def on_end(self, run: Run) -> None:
        """After the last step."""

    def on_divergence(self, run: Run, error: Diverged) -> bool:
        """At a non-finite loss or weight: return True to end the run with the last good weights.

        The model holds them already. Otherwise the run raises ``error``.
        """
        return False

    def state_dict(self) -> dict[str, Any]:
        """State to keep in the run's checkpoint: plain values and tensors (default: nothing)."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state kept in a checkpoint; called before ``on_start``."""


class StepReporter(Callback):
    """Calls ``report(steps done, steps in all, "")`` after each step."""

    def __init__(self, report: Callable[[float, float, str], None]) -> None:
        self.report = report

    def on_step(self, run: Run) -> None:
        self.report(run.step, run.total_steps, "")
