"""Hooks for users into a run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from expunge._errors import Diverged
    from expunge.engine._run import Run


class Callback:
    """Hooks into a run: override the ones you need.

    ``run`` offers ``model``, ``epoch``, ``step``, ``history``, ``losses``, ``record(name=value)``
    to add to the epoch's row, and ``stop()``. At the end of an epoch a callback may also steer the
    run: ``set_lr(rate)``, ``set_aggregate(part)``, and ``snapshot()`` with ``restore(snapshot)`` to
    roll back. Time spent in callbacks is not counted in ``history.seconds``, and the random numbers
    they draw do not disturb the run.
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
        """At a non-finite loss or weight: return True if the run may continue.

        The model holds the last good weights; ``run.restore`` goes back further.
        """
        return False

    def state_dict(self) -> dict[str, Any]:
        """State to keep in the run's checkpoint: plain values and tensors (default: nothing)."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a state kept in a checkpoint; called before ``on_start``."""
