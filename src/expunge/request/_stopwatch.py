"""How long a request takes, by stage: on the wall clock, and in processor time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import NamedTuple

from expunge.engine import Callback, Run
from expunge.evidence import Seconds, StageSeconds


class Clocks(NamedTuple):
    """Both clocks at one moment, or the seconds between two; processor time is of all threads."""

    wall: float
    processor: float

    @staticmethod
    def now() -> Clocks:
        """What the clocks show."""
        return Clocks(time.perf_counter(), time.process_time())

    def since(self, start: Clocks) -> Clocks:
        """The seconds from ``start``."""
        return Clocks(self.wall - start.wall, self.processor - start.processor)

    def plus(self, other: Clocks) -> Clocks:
        """The sum."""
        return Clocks(self.wall + other.wall, self.processor + other.processor)


class StepClocks(Callback):
    """The seconds of a run's gradient steps, and of what its method does between epochs."""

    def __init__(self) -> None:
        self.steps = self.method = self._before = Clocks(0.0, 0.0)

    def on_start(self, run: Run) -> None:
        # What was done before a kill; the method may have prepared itself since.
        self._before = Clocks(*run.seconds).since(Clocks(*run.method_seconds))

    def on_end(self, run: Run) -> None:
        self.method = Clocks(*run.method_seconds)
        self.steps = Clocks(*run.seconds).since(self.method).since(self._before)


@dataclass
class RequestStopwatch:
    """Seconds per stage of a request, from ``started``; time before a kill is not counted."""

    started: Clocks = field(default_factory=Clocks.now)
    steps: StepClocks = field(default_factory=StepClocks)
    _stages: dict[str, Clocks] = field(default_factory=dict)

    @contextmanager
    def time(self, stage: str) -> Iterator[None]:
        """Time the block that follows, as ``stage``."""
        start = Clocks.now()
        try:
            yield
        finally:
            self._stages[stage] = Clocks.now().since(start)

    def loaded(self) -> None:
        """Everything until now was loading."""
        self._stages["loading"] = Clocks.now().since(self.started)

    def seconds(self) -> Seconds:
        """Seconds by stage until now; what follows the audit is the ``page``."""
        total, zero = Clocks.now().since(self.started), Clocks(0.0, 0.0)
        unlearning, method = self._stages.get("unlearning", zero), self.steps.method
        stages = {name: self._stages.get(name, zero) for name in ("loading", "preflight", "audit")}
        known = unlearning
        for each in stages.values():
            known = known.plus(each)
        stages |= {
            "steps": self.steps.steps,
            "method": method,
            "checks": unlearning.since(self.steps.steps.plus(method)),
            "page": total.since(known),
            "total": total,
        }
        wall, processor = (
            StageSeconds(**{name: round(getattr(each, clock), 3) for name, each in stages.items()})
            for clock in Clocks._fields
        )
        return Seconds(wall=wall, processor=processor)
