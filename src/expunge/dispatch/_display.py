"""One progress display for all stages."""

from __future__ import annotations

import time
from collections import Counter

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from expunge.dispatch._engine import Event

_ENDS = ("done", "found", "failed", "skipped")
_YEAR = 365 * 86_400.0


class Display:
    """A ``report`` for :func:`expunge.dispatch.run`, to be used as a context manager.

    ``with Display("shadow models") as display: run(stages, store, report=display)`` draws one bar
    for all stages and one line per running stage, on standard error. The time left supposes that
    the rest takes as long, per unit of cost, as what is done. Where standard error is not a
    terminal, nothing is shown, or with ``log`` a line for every stage that was run.
    """

    def __init__(
        self, title: str = "stages", *, console: Console | None = None, log: bool = False
    ) -> None:
        console = console or Console(stderr=True)
        self._log = log and not console.is_terminal
        self._ended: Counter[str] = Counter()
        self._finished = 0.0  # cost of the stages that were planned and are there now
        self._left: dict[str, float] = {}  # cost of each stage that has not ended
        self._partial: dict[str, float] = {}  # cost already spent on running stages
        self._lines: dict[str, TaskID] = {}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[text]}"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
            speed_estimate_period=_YEAR,
        )
        self._overall = self._progress.add_task(escape(title), total=None, text="")

    def __enter__(self) -> Display:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def __call__(self, event: Event) -> None:
        """Show an event."""
        if event.what == "planned":
            self._left[event.stage.key] = event.stage.cost
        elif event.what in _ENDS:
            self._end(event)
        else:
            self._draw_line(event)
        self._progress.update(
            self._overall,
            completed=self._finished + sum(self._partial.values()),
            total=self._finished + sum(self._left.values()),
            text=self._counts(),
        )
        if self._log and event.what in ("done", "failed", "retried"):
            self._write_line(event)

    def _write_line(self, event: Event) -> None:
        """Write what became of a stage, for a log."""
        ended = self._ended.total()
        text = f"{time.strftime('%H:%M:%S')} {event.what} {ended}/{ended + len(self._left)} "
        text += event.stage.title
        text += f" ({event.seconds:.1f} s)" if event.what == "done" else f": {event.text}"
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def _end(self, event: Event) -> None:
        """Count a stage that has ended, and remove its line."""
        key = event.stage.key
        self._ended[event.what] += 1
        self._partial.pop(key, None)
        cost = self._left.pop(key, 0.0)
        if event.what in ("done", "found"):
            self._finished += cost
        if key in self._lines:
            self._progress.remove_task(self._lines.pop(key))
        if event.what == "failed" and not self._progress.disable:
            self._progress.console.print(f"[red]Failed:[/] {escape(event.text)}", highlight=False)

    def _draw_line(self, event: Event) -> None:
        """Show how far a running stage is."""
        stage = event.stage
        if stage.key not in self._lines:
            title = f"  {escape(stage.title)}"
            self._lines[stage.key] = self._progress.add_task(title, total=None, text="")
        share = min(1.0, event.done / event.total) if event.total else 0.0
        self._partial[stage.key] = stage.cost * share
        texts = {"waiting": "another run is computing it", "retried": "retried"}
        text = texts.get(event.what, escape(event.text))
        line = self._lines[stage.key]
        self._progress.update(line, completed=event.done, total=event.total, text=text)

    def _counts(self) -> str:
        text = f"{self._ended['done'] + self._ended['found']} done, {len(self._left)} left"
        for what in ("failed", "skipped"):
            text += f", {self._ended[what]} {what}" if self._ended[what] else ""
        return text
