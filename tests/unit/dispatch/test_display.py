"""The display counts, estimates, and keeps quiet where nobody watches."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from expunge.dispatch import Display, Event, run
from expunge.dispatch._display import StageCounts
from expunge.store import Store
from tests.unit.dispatch.work import stage


def test_the_time_left_follows_the_costs() -> None:
    counts = StageCounts()
    small, large, bad = stage("add", n=1), stage("add", n=2, cost=3.0), stage("add", n=3, cost=9.0)
    for one in (small, large, bad):
        counts.count(Event("planned", one))
    assert counts.seconds_left(10.0) is None
    counts.count(Event("failed", bad))
    counts.count(Event("done", small))
    assert counts.seconds_left(10.0) == pytest.approx(30.0)
    counts.count(Event("progress", large, 1, 3))
    assert counts.seconds_left(20.0) == pytest.approx(20.0)
    assert str(counts) == "1 done, 1 left, 1 failed"
    counts.count(Event("retried", large))
    assert counts.seconds_left(10.0) == pytest.approx(30.0)
    counts.count(Event("found", large))
    assert counts.seconds_left(20.0) == 0
    assert str(counts) == "2 done, 0 left, 1 failed"


def test_what_was_there_at_the_start_does_not_speed_up_the_rest() -> None:
    counts = StageCounts()
    counts.count(Event("found", stage("add", n=1, cost=100.0)))
    counts.count(Event("planned", stage("add", n=2)))
    assert counts.seconds_left(5.0) is None


def show(store: Store, *, terminal: bool) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    stages = [stage("count", title="[counting]"), stage("fail", title="the unlucky one")]
    with Display("everything", console=console) as display:
        run(stages, store, inline=True, report=display)
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
