"""Progress of a run: a bar on the terminal, or a function called after every step."""

from __future__ import annotations

from collections.abc import Callable
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

from expunge.engine._callbacks import Callback

if TYPE_CHECKING:
    from expunge.engine._run import Run


class _Speed(ProgressColumn):
    def render(self, task: Task) -> Text:
        return Text(f"{task.speed or 0:.1f} steps/s", style="progress.data.speed")


class ProgressBar(Callback):
    """Shows epoch, steps, losses, speed and time left on standard error, if it is a terminal.

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


class StepReporter(Callback):
    """Calls ``report(steps done, steps in all, "")`` after each step."""

    def __init__(self, report: Callable[[float, float, str], None]) -> None:
        self.report = report

    def on_step(self, run: Run) -> None:
        self.report(run.step, run.epochs * run.steps_per_epoch, "")
