"""The time of a request by stage, on clocks that a test turns."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from expunge.engine import Run
from expunge.request import _stopwatch as module
from expunge.request._stopwatch import RequestStopwatch


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Two clocks that stand still until they are turned."""
    clock = SimpleNamespace(wall=100.0, processor=7.0)
    monkeypatch.setattr(module, "clocks", lambda: np.array([clock.wall, clock.processor]))
    return clock


def turn(clock: SimpleNamespace, wall: float) -> None:
    """So much wall time, all of it on two processors."""
    clock.wall += wall
    clock.processor += 2 * wall


def test_the_stages_add_up_to_the_total(clock: SimpleNamespace) -> None:
    watch = RequestStopwatch()
    turn(clock, 1.0)
    watch.end_loading()
    for stage, wall in (("preflight", 2.0), ("unlearning", 30.0), ("audit", 4.0)):
        with watch.time(stage):
            turn(clock, wall)
    # The run was resumed: 5 seconds of steps were done before.
    whole, method = SimpleNamespace(both=(5.0, 10.0)), SimpleNamespace(both=(0.0, 0.0))
    run = SimpleNamespace(watch=whole, method_watch=method)
    watch.on_start(cast("Run", run))
    whole.both, method.both = (28.0, 56.0), (3.0, 6.0)
    watch.on_end(cast("Run", run))
    turn(clock, 6.0)

    seconds, processor = watch.seconds().wall, watch.seconds().processor
    assert seconds.total == 43.0
    assert (seconds.steps, seconds.method, seconds.checks) == (20.0, 3.0, 7.0)
    assert (seconds.loading, seconds.preflight, seconds.audit, seconds.page) == (1, 2, 4, 6)
    assert processor.total == 86.0
    stages = {k: v for k, v in processor.model_dump().items() if k != "total"}
    assert sum(stages.values()) == 86.0
    assert (
        watch.seconds()
        .in_words()
        .startswith("took 86 s of processor time: 40 s gradient steps, 14 s checks, 12 s page")
    )
