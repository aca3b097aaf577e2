"""One progress display for all stages; silent where standard error is no terminal."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import timedelta
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from expunge.dispatch._engine import Event
from expunge.store import Stage

_ENDS = ("done", "found", "failed", "skipped")


@dataclass
class StageCounts:
    """How many stages ended which way, and an estimate of the time left from their costs."""

    ended: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_ENDS, 0))
    planned: dict[str, float] = field(default_factory=dict)
    """Cost of each stage that has not ended."""
    partial: dict[str, float] = field(default_factory=dict)
    """Cost already spent on running stages."""
    finished: float = 0.0

    def count(self, event: Event) -> None:
        """Count an event."""
        key = event.stage.key
        if event.what == "planned":
            self.planned[key] = event.stage.cost
        elif event.what == "progress" and event.total:
            share = min(1.0, max(0.0, event.done / event.total))
            self.partial[key] = event.stage.cost * share
        elif event.what in ("retried", "waiting"):
            self.partial.pop(key, None)
        elif event.what in _ENDS:
            cost = self.planned.pop(key, 0.0)
            self.partial.pop(key, None)
            self.ended[event.what] += 1
            self.finished += cost if event.what in ("done", "found") else 0.0

    def seconds_left(self, elapsed: float) -> float | None:
        """Time left if the rest is as fast, per unit of cost, as what is done; None if unknown."""
        spent = self.finished + sum(self.partial.values())
        left = sum(self.planned.values()) - sum(self.partial.values())
        return elapsed * left / spent if spent > 0 else None

    def __str__(self) -> str:
        complete = self.ended["done"] + self.ended["found"]
        text = f"{complete} done, {len(self.planned)} left"
        for what in ("failed", "skipped"):
            text += f", {self.ended[what]} {what}" if self.ended[what] else ""
        return text


class Display:
    """A ``report`` for :func:`expunge.dispatch.run`, to be used as a context manager.

    ``with Display("shadow models") as display: run(stages, store, report=display)`` draws one bar
    for all stages, with the time left, and one line per running stage, on standard error.
    """

    def __init__(self, title: str = "stages", *, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)
        self.title = title
        self.counts = StageCounts()
        self._began = time.monotonic()
        self._lines: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            console=self.console,
            transient=True,
            disable=not self.console.is_terminal,
        )

    def __enter__(self) -> Display:
        self._began = time.monotonic()
        self._overall = self._progress.add_task(escape(self.title), total=None, text="")
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        self.counts.count(event)
        if self._progress.disable:
            return
        if event.what == "started":
            self._line(event.stage)
        elif event.what == "progress":
            line = self._line(event.stage)
            self._progress.update(
                line, completed=event.done, total=event.total, text=escape(event.text)
            )
        elif event.what == "retried":
            self._progress.update(self._line(event.stage), completed=0, total=None, text="retried")
        elif event.what == "waiting":
            text = "another run is computing it"
            self._progress.update(self._line(event.stage), text=text)
        elif event.stage.key in self._lines:
            self._progress.remove_task(self._lines.pop(event.stage.key))
        if event.what == "failed":
            self._progress.console.print(f"[red]Failed:[/] {escape(event.text)}", highlight=False)
        self._draw()

    def _line(self, stage: Stage) -> TaskID:
        if stage.key not in self._lines:
            title = f"  {escape(stage.title)}"
            self._lines[stage.key] = self._progress.add_task(title, total=None, text="")
        return self._lines[stage.key]

    def _draw(self) -> None:
        counts = self.counts
        ended = sum(counts.ended.values())
        left = counts.seconds_left(time.monotonic() - self._began)
        eta = "" if left is None else f", {timedelta(seconds=round(left))} to go"
        self._progress.update(
            self._overall,
            completed=ended,
            total=ended + len(counts.planned),
            text=f"{counts}{eta}",
        )
