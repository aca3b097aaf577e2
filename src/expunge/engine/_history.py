"""What happened in a run: one row per epoch, one per step, and the time of the steps."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from expunge._errors import InvalidInput
from expunge._repr import ReadableRepr, ReprParts, draw_curves
from expunge.update import Update

Row = dict[str, float]
LOSSES = ("objective", "constraint")


@dataclass(repr=False)
class History(ReadableRepr):
    """The rows of a run.

    ``epochs`` has, for each epoch: ``epoch`` (from 1), ``steps``, ``seconds`` (of the steps alone,
    from the start of the run: the paper's run-time efficiency, RTE), ``processor_seconds`` (the
    same in processor time, which other work on the machine disturbs less), mean ``objective`` and
    ``constraint`` losses, the mean of each diagnostic with ``feasible`` as a share, and what
    callbacks recorded. ``steps`` has the losses and diagnostics of each step of a constrained run.
    """

    epochs: list[Row] = field(default_factory=list)
    steps: list[Row] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Time spent in steps: RTE."""
        return self.epochs[-1]["seconds"] if self.epochs else 0.0

    def column(self, name: str) -> list[float]:
        """One quantity over the epochs, NaN for an epoch that does not have it."""
        return [row.get(name, math.nan) for row in self.epochs]

    def plot(self, *names: str, ax: Any = None) -> Any:
        """Draw quantities over the epochs (default: the losses) into matplotlib axes, or new ones.

        Returns the axes: ``history.plot("feasible").figure.savefig("feasible.png")``.
        """
        curves = self._curves()
        if unknown := [name for name in names if name not in curves]:
            known = f"one of {', '.join(curves)}" if curves else "of an epoch; there was none"
            raise InvalidInput(f"What a history draws should be {known}. (got {unknown[0]!r})")
        return draw_curves({name: curves[name] for name in names or LOSSES if name in curves}, ax)

    def _curves(self) -> dict[str, list[float]]:
        """Every quantity over the epochs that exists, except for numbers of epochs and steps."""
        names = dict.fromkeys(name for row in self.epochs for name in row)
        curves = {name: self.column(name) for name in names if name not in ("epoch", "steps")}
        return {name: each for name, each in curves.items() if not all(map(math.isnan, each))}

    def _repr_parts(self) -> ReprParts:
        curves = self._curves()
        losses = {name: curves[name] for name in LOSSES if name in curves}
        steps = sum(int(row["steps"]) for row in self.epochs)
        facts = [f"{len(self.epochs)} epochs, {steps} steps, {self.seconds:.1f} s"]
        facts += [f"{name} {each[0]:.3f} → {each[-1]:.3f}" for name, each in losses.items()]
        rows = [(name, f"{each[0]:.4g}", f"{each[-1]:.4g}") for name, each in curves.items()]
        heads = ("", "first epoch", "last epoch")
        return ReprParts(f"History({'; '.join(facts)})", heads, rows, losses)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"epochs": self.epochs, "steps": self.steps}


class StepRecorder:
    """The rows of the steps since the last epoch or log.

    A step's tensors are read later, all together: reading them makes an accelerator wait.
    """

    def __init__(self, update: Update, *, constrained: bool) -> None:
        self.update, self.constrained = update, constrained
        self.rows: list[Row] = []
        self._unread: list[tuple[Tensor, Tensor | None, Tensor | None]] = []

    def add(self, step: tuple[Tensor, Tensor | None, Tensor | None]) -> None:
        """Add a step: objective, constraint, and the update's record."""
        self._unread.append(step)

    def read(self) -> list[Row]:
        """All rows, as plain numbers."""
        for objective, constraint, record in self._unread:
            row = {
                "objective": float(objective),
                "constraint": math.nan if constraint is None else float(constraint),
            }
            if record is not None:
                diagnostics = self.update.read(record, constrained=self.constrained)
                row |= diagnostics.as_dict() | {"feasible": float(diagnostics.feasible)}
            self.rows.append(row)
        self._unread = []
        return self.rows

    def take_means(self) -> Row:
        """The mean of each quantity, NaN where it does not exist; the rows are gone afterwards."""
        rows, self.rows = self.read(), []
        names = rows[0] if rows else ()  # none if no step was taken
        return {name: sum(row[name] for row in rows) / len(rows) for name in names}

    def end_epoch(self, history: History, row: Row, recorded: Row) -> None:
        """Add the rows of an epoch and of its steps to the history."""
        if self.constrained:
            numbered = enumerate(self.read(), start=len(history.steps) + 1)
            history.steps += [{"step": k, "epoch": row["epoch"], **each} for k, each in numbered]
        history.epochs.append(row | recorded | self.take_means())


class Stopwatch:
    """Wall-clock and processor seconds while it runs: callbacks and checkpoints pause it.

    >>> watch = Stopwatch()
    >>> watch.start()
    >>> with watch.paused():
    ...     before = watch.seconds
    ...     time.sleep(0.01)
    ...     watch.stop()  # already stopped: nothing to count
    ...     watch.seconds == before
    True
    """

    def __init__(self) -> None:
        self.seconds = self.processor_seconds = 0.0
        self._since: tuple[float, float] | None = None

    @property
    def both(self) -> tuple[float, float]:
        """Wall-clock and processor seconds."""
        return self.seconds, self.processor_seconds

    def start(self) -> None:
        """Start counting."""
        self._since = time.perf_counter(), time.process_time()

    def stop(self) -> None:
        """Stop counting, if it runs."""
        if self._since is not None:
            self.seconds += time.perf_counter() - self._since[0]
            self.processor_seconds += time.process_time() - self._since[1]
            self._since = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count what happens inside."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Do not count what happens inside."""
        self.stop()
        try:
            yield
        finally:
            self.start()
