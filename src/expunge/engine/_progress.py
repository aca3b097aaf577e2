"""Progress of a run: a bar on a terminal, a line in a notebook, log messages everywhere."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from expunge._durations import format_duration
from expunge.engine._callbacks import Callback

if TYPE_CHECKING:
    from expunge.engine._run import Run

LOG = logging.getLogger("expunge")
"""Gets a line per epoch, level INFO, if a program asks for them."""
READ_EVERY = 5
"""Steps between two readings of the losses for the bar: each makes an accelerator wait."""
LINE = 100
"""Columns that cover a longer line before it."""


class ProgressDisplay(Callback):
    """Shows on standard error how far a run is, and logs it.

    A terminal has a bar with epoch, steps, time left and losses. A notebook has one line that every
    epoch replaces, with what other callbacks recorded of it, so this should be the last of them.
    Elsewhere nothing is shown but that a run resumes. The log gets a line per epoch. The time left
    is that of the steps left, at the speed since the start or the last resume.
    """

    def __init__(
        self,
        title: str,
        *,
        shown: bool = True,
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.title, self.clock, self.shown = title, clock, shown
        self.console = console or Console(stderr=True)
        self._start: tuple[float, int] = (0.0, 0)
        self._bar: Progress | None = None

    @staticmethod
    def is_logged() -> bool:
        """Whether somebody asked for the lines of the log."""
        return LOG.isEnabledFor(logging.INFO)

    def on_start(self, run: Run) -> None:
        self._start = self.clock(), run.step
        if run.step:
            line = f"{self.title}  resumes after step {run.step} of {run.total_steps}"
            LOG.info(line)
            if self.shown and not self.is_logged():
                self.console.print(line, markup=False, highlight=False)
        if not (self.shown and self.console.is_terminal):
            return
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[losses]}"),
            console=self.console,
            transient=True,
        )
        self._bar.start()
        total = run.total_steps
        self._task = self._bar.add_task(self.title, total=total, completed=run.step, losses="")

    def on_step(self, run: Run) -> None:
        if self._bar is None:
            return
        if run.step % READ_EVERY == 0:
            objective, constraint = run.losses
            text = f"U {objective:.3f}" + ("" if constraint is None else f"  C {constraint:.3f}")
            self._bar.update(self._task, losses=text)
        title = f"{self.title}  epoch {min(run.epoch + 1, run.epochs)}/{run.epochs}"
        self._bar.update(self._task, completed=run.step, description=title)

    def on_epoch(self, run: Run) -> None:
        replaces = self.shown and self.console.is_jupyter
        if not (replaces or self.is_logged()):
            return
        started, first = self._start
        elapsed = self.clock() - started
        left = elapsed / max(run.step - first, 1) * (run.total_steps - run.step)
        parts = [
            *_values(run.history.epochs[-1]),
            format_duration(elapsed),
            f"about {format_duration(left)} left",
        ]
        line = f"{self.title}  epoch {run.epoch}/{run.epochs}: {', '.join(parts)}"
        LOG.info(line)
        if replaces and not self.is_logged():
            end = "\n" if run.epoch == run.epochs else ""
            print(f"\r{line:<{LINE}}", file=self.console.file, end=end, flush=True)

    def on_end(self, run: Run) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _values(row: Mapping[str, float]) -> list[str]:
    """What is known of an epoch: the comparison with unseen data if there was one, or losses."""
    compared = (("ua", "UA {:.1f} %"), ("va", "val accuracy {:.1f} %"))
    losses = (("objective", "U {:.3f}"), ("constraint", "C {:.3f}"))
    return [
        text.format(row[name])
        for name, text in (compared if "ua" in row else losses)
        if not math.isnan(row.get(name, math.nan))
    ]
