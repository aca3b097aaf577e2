"""How long a request takes, by stage: on the wall clock, and in processor time of all threads."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from expunge._arrays import Array
from expunge.engine import Callback, Run
from expunge.evidence import Seconds, StageSeconds


def clocks() -> Array:
    """What the two clocks show: wall and processor seconds."""
    return np.array([time.perf_counter(), time.process_time()])


class RequestStopwatch(Callback):
    """Seconds per stage of a request, from ``started`` (default: now).

    As a callback of the run, it separates gradient steps from what the method does between epochs.
    Time before a kill is not counted.
    """

    def __init__(self, started: tuple[float, float] | None = None) -> None:
        self.started = clocks() if started is None else np.array(started)
        self.steps = self.method = self._before = np.zeros(2)
        self._stages = dict.fromkeys(("loading", "preflight", "unlearning", "audit"), np.zeros(2))

    def on_start(self, run: Run) -> None:
        # What was done before a kill; the method may have prepared itself since.
        self._before = np.subtract(run.watch.both, run.method_watch.both)

    def on_end(self, run: Run) -> None:
        self.method = self.method + np.array(run.method_watch.both)
        done = np.subtract(run.watch.both, run.method_watch.both)
        self.steps = self.steps + done - self._before  # of both runs, if there were two

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Time the block that follows, as ``stage``."""
        start = clocks()
        try:
            yield
        finally:
            self._stages[stage] = clocks() - start

    def end_loading(self) -> None:
        """Everything until now was loading."""
        self._stages["loading"] = clocks() - self.started

    def seconds(self) -> Seconds:
        """Seconds by stage until now; what follows the audit is the ``page``."""
        total = clocks() - self.started
        stages = self._stages | {
            "steps": self.steps,
            "method": self.method,
            "page": total - np.sum(list(self._stages.values()), axis=0),
            "total": total,
        }
        stages["checks"] = stages.pop("unlearning") - self.steps - self.method
        wall, processor = (
            StageSeconds(**{name: round(float(pair[clock]), 3) for name, pair in stages.items()})
            for clock in (0, 1)
        )
        return Seconds(wall=wall, processor=processor)
