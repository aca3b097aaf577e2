"""The display counts, and keeps quiet where nobody watches."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from expunge.dispatch import Display, Event, InlineEngine, run
from expunge.store import Store
from tests.unit.dispatch.work import stage


def bar(display: Display) -> tuple[float, float | None, str]:
    """How far the bar of all stages is, of how much, and what it says."""
    overall = display._progress.tasks[0]
    return overall.completed, overall.total, overall.fields["text"]


def test_the_bar_follows_the_costs() -> None:
    display = Display(console=Console(file=io.StringIO()))
    small, large, bad = stage("add", n=1), stage("add", n=2, cost=3.0), stage("add", n=3, cost=9.0)
    display(Event("found", stage("add", n=0, cost=100.0)))  # what was there speeds up nothing
    for one in (small, large, bad):
        display(Event("planned", one))
    assert bar(display) == (0, 13, "1 done, 3 left")
    display(Event("failed", bad))
    display(Event("done", small))
    assert bar(display) == (1, 4, "2 done, 1 left, 1 failed")
    display(Event("progress", large, 1, 3))
    assert bar(display)[0] == pytest.approx(2)
    display(Event("retried", large))
    assert bar(display)[0] == 1
    display(Event("found", large))
    assert bar(display) == (4, 4, "3 done, 0 left, 1 failed")


def show(store: Store, *, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    stages = [stage("count", title="[counting]"), stage("fail", title="the unlucky one")]
    with Display("everything", console=console) as display:
        run(stages, store, engine=InlineEngine(store), report=display)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_terminal_sees_everything(store: Store) -> None:
    text = show(store, terminal=True)
    assert "everything" in text
    assert "1 done, 0 left, 1 failed" in text
    assert "the unlucky one: ValueError: it was not meant to be" in text


def test_where_nobody_watches_there_is_silence(store: Store) -> None:
    assert show(store, terminal=False) == ""


def test_a_running_stage_has_a_line_of_its_own(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    one = stage("count", title="[counting]")
    with Display(console=console) as display:
        for event in (Event("planned", one), Event("started", one), Event("waiting", one)):
            display(event)
        display(Event("progress", one, 3, 20, "step [3]"))
        display._progress.refresh()
        display(Event("retried", one))
        display._progress.refresh()
        display(Event("done", one))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "[counting]" in text
    assert "step [3]" in text
    assert "retried" in text
