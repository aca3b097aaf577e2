"""Hooks into a run that a user can write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expunge.engine.run import Run


class Callback:
    """A user's hooks into a run: override what you need.

    ``run`` offers ``model``, ``epoch``, ``step``, ``history``, ``losses``, ``record(name=value)``
    to add to the epoch's row, and ``stop()``. Time spent in callbacks is not counted in
    ``history.seconds``, and the random numbers they draw do not disturb the run.
    """

    def on_start(self, run: Run) -> None:
        """Before the first step (or the first after a resume)."""

    def on_step(self, run: Run) -> None:
        """After each step."""

    def on_epoch(self, run: Run) -> None:
        """After each epoch, when its row is in ``run.history.epochs``."""

    def on_end(self, run: Run) -> None:
        """After the last step."""
