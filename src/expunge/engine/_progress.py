"""Progress of a run: a bar on a terminal, a line per epoch elsewhere, or a function per step."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from expunge._durations import format_duration
from expunge.engine._callbacks import Callback

if TYPE_CHECKING:
    from expunge.engine._run import Run


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:.1f} steps/s", style="progress.data.speed")


class ProgressBar(Callback):
    """Shows epoch, steps, losses, speed and time left on standard error, if it is a terminal.

    Elsewhere, :class:`EpochLines` writes instead.

    Losses are read every few steps only, so that the bar does not make a device wait.
    """

    def __init__(self, title: str, *, console: Console | None = None, every: int = 5) -> None:
        self.title = title
        self.console = console or Console(stderr=True)
        self.every = every
        self._progress: Progress | None = None

    def on_start(self, run: Run) -> None:
        if not self.console.is_terminal:
            return
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Speed(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[losses]}"),
            console=self.console,
            transient=True,
        )
        total = run.epochs * run.steps_per_epoch
        self._progress.start()
        self._task = self._progress.add_task(self.title, total=total, completed=run.step, losses="")

    def on_step(self, run: Run) -> None:
        if self._progress is None:
            return
        if run.step % self.every == 0:
            objective, constraint = run.losses
            text = f"U {objective:.3f}" + ("" if constraint is None else f"  C {constraint:.3f}")
            self._progress.update(self._task, losses=text)
        title = f"{self.title}  epoch {min(run.epoch + 1, run.epochs)}/{run.epochs}"
        self._progress.update(self._task, completed=run.step, description=title)

    def on_end(self, run: Run) -> None:
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


class EpochLines(Callback):
    """Writes a line per epoch to standard error, unless it is a terminal, which has the bar.

    It should be the last of the callbacks: what they recorded of the epoch is on the line. The
    time left is that of the steps left, at the speed since the start or the last resume.
    """

    def __init__(
        self,
        title: str,
        *,
        console: Console | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.title, self.clock = title, clock
        self.console = console or Console(stderr=True)
        self._start: tuple[float, int] = (0.0, 0)

    def on_start(self, run: Run) -> None:
        self._start = self.clock(), run.step

    def on_epoch(self, run: Run) -> None:
        if self.console.is_terminal:
            return
        started, first = self._start
        elapsed = self.clock() - started
        left = run.epochs * run.steps_per_epoch - run.step
        parts = [
            *_values(run.history.epochs[-1]),
            format_duration(elapsed),
            f"about {format_duration(elapsed / max(run.step - first, 1) * left)} left",
        ]
        line = f"{self.title}  epoch {run.epoch}/{run.epochs}: {', '.join(parts)}"
        print(line, file=self.console.file, flush=True)


def _values(row: Mapping[str, float]) -> list[str]:
    """What is known of an epoch: the comparison with unseen data if there was one, or losses."""
    compared = (
        ("ua", "UA {:.1f} %"),
        ("va", "val accuracy {:.1f} %"),
        ("distance", "distance {:.2f}"),
    )
    losses = (("objective", "U {:.3f}"), ("constraint", "C {:.3f}"))
    return [
        text.format(row[name])
        for name, text in (compared if "ua" in row else losses)
        if not math.isnan(row.get(name, math.nan))
    ]


class StepReporter(Callback):
    """Calls ``report(steps done, steps in all, "")`` after each step."""

    def __init__(self, report: Callable[[float, float, str], None]) -> None:
        self.report = report

    def on_step(self, run: Run) -> None:
        self.report(run.step, run.epochs * run.steps_per_epoch, "")
