"""Run a graph of stages on an engine: submit what is ready, handle what comes back."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from expunge._errors import ExpungeError, StorageError
from expunge._kinds import Count, NaturalNumber, check_arguments
from expunge.dispatch._engine import Engine, Event, Report, StageOutcome
from expunge.dispatch._execute import read_progress
from expunge.dispatch._local import LocalEngine
from expunge.store import Stage, Store

_PAUSE = 0.25
"""Seconds between two tries at a stage that another run is computing."""


@dataclass
class RunSummary:
    """The stages of a run, by how they ended.

    ``found`` includes what another run computed in the meantime. ``skipped`` pairs a stage with the
    failed one it depends on, or with None where the run stopped early.
    """

    done: list[Stage] = field(default_factory=list)
    found: list[Stage] = field(default_factory=list)
    failed: list[StageOutcome] = field(default_factory=list)
    skipped: list[tuple[Stage, Stage | None]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Whether every stage is in the store now."""
        return not self.failed and not self.skipped

    def __str__(self) -> str:
        return (
            f"{len(self.done)} done, {len(self.found)} already there, {len(self.failed)} failed, "
            f"{len(self.skipped)} skipped in {self.seconds:.1f} s"
        )

    def check(self) -> RunSummary:
        """Raise an error that names the first failure, if there is one."""
        if self.failed:
            first = self.failed[0]
            kind = StorageError if first.error in ("StorageError", "OSError") else ExpungeError
            raise kind(f"{self}. The first failure: {first}")
        return self


def run(
    stages: Iterable[Stage],
    store: Store,
    *,
    workers: Count | None = None,
    retries: NaturalNumber = 0,
    report: Report | None = None,
    engine: Engine | None = None,
) -> RunSummary:
    """Compute ``stages``, and the ancestors they need, into the store.

    What is stored is not run again; what is damaged is set aside, with a warning, and run again; a
    stage that another run is computing is waited for. A stage that raises fails its descendants but
    nothing else (unless the disk is full: then running stages finish and the rest are skipped). A
    stage whose worker dies is retried up to ``retries`` times; one that raises is not, as it would
    raise again. Ready stages start in order of ``cost``, largest first.

    The work is done by ``workers`` processes (default: one per core), or by an ``engine``, which is
    left open. On KeyboardInterrupt the workers are killed; the next run resumes their stages from
    the work folders.

    >>> import tempfile
    >>> from expunge.dispatch import InlineEngine
    >>> stage = Stage("nothing", {"n": 1}, run="builtins:repr")
    >>> with tempfile.TemporaryDirectory() as root:
    ...     engine = InlineEngine(Store(root))
    ...     first = run([stage], engine.store, engine=engine)
    ...     again = run([stage], engine.store, engine=engine)
    >>> len(first.done), len(again.done), len(again.found)
    (1, 0, 1)
    """
    stages = list(stages)
    check_arguments(run, locals())
    began = time.perf_counter()
    # Find what is missing.
    found, missing = _found_and_missing(stages, store)
    if missing:
        store.prepare()
    # Compute it. A lent engine stays open, unless the run was interrupted.
    used = engine or _engine(store, workers, len(missing))
    loop = Loop(missing, store, used, retries, report or (lambda event: None))
    interrupted = True
    try:
        loop.run(found)
        interrupted = False
    finally:
        if interrupted or engine is None:
            used.close(kill=interrupted)
    loop.summary.seconds = time.perf_counter() - began
    return loop.summary


def _engine(store: Store, workers: int | None, stages: int) -> Engine:
    local = LocalEngine(store, workers)
    local.capacity = max(1, min(local.capacity, stages))  # the workers share the threads
    return local


def _found_and_missing(stages: list[Stage], store: Store) -> tuple[list[Stage], list[Stage]]:
    """The stages that are in the store, and those to run, with the ancestors that they need."""
    found: dict[str, Stage] = {}
    missing: dict[str, Stage] = {}
    queue = stages[::-1]
    while queue:
        stage = queue.pop()
        if stage.key in found or stage.key in missing:
            continue
        if store.intact(stage):
            found[stage.key] = stage
        else:
            missing[stage.key] = stage
            queue.extend(reversed(stage.parents))
    return [*found.values()], [*missing.values()]


class Loop:
    """The state of a run: which stages are left, running, or waiting for another run."""

    def __init__(
        self, missing: list[Stage], store: Store, engine: Engine, retries: int, report: Report
    ) -> None:
        self.store, self.engine = store, engine
        self.retries, self.report = retries, report
        self.summary = RunSummary()
        self.stopped = False
        self.left = {stage.key: stage for stage in missing}
        self.running: dict[str, Stage] = {}
        self.waiting: dict[str, float] = {}  # when to try a stage again that another run computes
        self.announced: set[str] = set()  # of these
        self.tries: dict[str, int] = {}
        self.progress: dict[str, tuple[float, float | None, str]] = {}

    def run(self, found: list[Stage]) -> None:
        """Run until every stage has ended, or until the run was stopped and nothing is running."""
        for stage in found:
            self._found(stage)
        for stage in self.left.values():
            self.report(Event("planned", stage))
        while self.left and not (self.stopped and not self.running):
            self._submit()
            timeout = _PAUSE if self.waiting else 1.0
            if self.running:
                for outcome in self.engine.poll(timeout):
                    self._handle(outcome)
                self._report_progress()
            else:
                time.sleep(timeout)
        for stage in list(self.left.values()):
            self._skip(stage, None)

    def _submit(self) -> None:
        """Submit what is ready, the most costly first; of equals, the one listed first."""
        capacity = self.engine.capacity
        free = None if capacity is None else capacity - len(self.running)
        if self.stopped or free == 0:
            return
        for stage in sorted(self._ready(), key=lambda stage: -stage.cost)[:free]:
            self.waiting.pop(stage.key, None)
            self.running[stage.key] = stage
            self.engine.submit(stage)
            if stage.key not in self.announced:
                self.report(Event("started", stage))

    def _ready(self) -> list[Stage]:
        """The stages that can be run now."""
        now = time.monotonic()
        return [
            stage
            for key, stage in self.left.items()
            if key not in self.running and self.waiting.get(key, now) <= now
            if not any(parent.key in self.left for parent in stage.parents)
        ]

    def _report_progress(self) -> None:
        for stage in self.running.values():
            how_far = read_progress(self.store.work_path(stage))
            if how_far is not None and self.progress.get(stage.key) != how_far:
                self.progress[stage.key] = how_far
                self.report(Event("progress", stage, *how_far))

    def _handle(self, outcome: StageOutcome) -> None:
        stage = self.running.pop(outcome.stage.key)
        self.summary.warnings.extend(outcome.warnings)
        if outcome.status == "busy":
            self.waiting[stage.key] = time.monotonic() + _PAUSE
            if stage.key not in self.announced:
                self.announced.add(stage.key)
                self.report(Event("waiting", stage))
        elif outcome.status in ("failed", "lost"):
            self.tries[stage.key] = self.tries.get(stage.key, 0) + 1
            if outcome.status == "lost" and self.tries[stage.key] <= self.retries:
                self.report(Event("retried", stage, text=outcome.message))
            else:
                self._failed(replace(outcome, stage=stage, tries=self.tries[stage.key]))
        else:
            del self.left[stage.key]
            self.store.forget_failure(stage)
            if outcome.status == "found":
                self._found(stage)
            else:
                self.summary.done.append(stage)
                self.report(Event("done", stage, seconds=outcome.seconds))

    def _found(self, stage: Stage) -> None:
        self.summary.found.append(stage)
        self.report(Event("found", stage))

    def _failed(self, outcome: StageOutcome) -> None:
        stage = outcome.stage
        del self.left[stage.key]
        self.summary.failed.append(outcome)
        try:
            self.store.record_failure(stage, outcome.notes())
        except StorageError as error:
            self.summary.warnings.append(str(error))
        self.report(Event("failed", stage, text=str(outcome), seconds=outcome.seconds))
        doomed = {stage.key}
        while lost := [s for s in self.left.values() if any(p.key in doomed for p in s.parents)]:
            doomed |= {child.key for child in lost}
            for child in lost:
                self._skip(child, stage)
        self.stopped = self.stopped or outcome.hopeless

    def _skip(self, stage: Stage, because: Stage | None) -> None:
        del self.left[stage.key]
        self.summary.skipped.append((stage, because))
        self.report(Event("skipped", stage, text="" if because is None else because.title))
