"""Run a graph of stages on an engine: submit what is ready, handle what comes back."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field

from expunge._errors import ExpungeError, InvalidInput, StorageError
from expunge.dispatch._engine import Engine, Event, Progress, Report, TaskResult
from expunge.dispatch._graph import Graph
from expunge.dispatch._local import InlineEngine, LocalEngine
from expunge.store import Stage, Store, now


@dataclass(frozen=True)
class Failure:
    """A stage that failed, and why; also recorded in the store's ``.failed/<key>.json``."""

    stage: Stage
    error: str
    message: str
    traceback: str = ""
    output: str = ""
    attempts: int = 1

    def notes(self) -> dict[str, object]:
        """What the store keeps of it."""
        own = ("error", "message", "traceback", "output", "attempts")
        stage = {name: getattr(self.stage, name) for name in ("kind", "key", "title")}
        return stage | {name: getattr(self, name) for name in own} | {"when": now()}

    def __str__(self) -> str:
        return f"{self.stage.title}: {self.error}: {self.message}"


@dataclass
class RunSummary:
    """The stages of a run, by how they ended.

    ``found`` includes what another run computed in the meantime. ``skipped`` pairs a stage with the
    failed one it depends on, or with None where the run stopped early.
    """

    done: list[Stage] = field(default_factory=list)
    found: list[Stage] = field(default_factory=list)
    failed: list[Failure] = field(default_factory=list)
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
    workers: int | None = None,
    retries: int = 0,
    report: Report | None = None,
    keep_going: bool = True,
    inline: bool = False,
    engine: Engine | None = None,
) -> RunSummary:
    """Compute ``stages``, and the ancestors they need, into the store.

    What is stored is not run again; what is damaged is set aside, with a warning, and run again; a
    stage that another run is computing is waited for. A stage that raises fails its descendants but
    nothing else (unless ``keep_going`` is off, or the disk is full: then running stages finish and
    the rest are skipped). A stage whose worker dies is retried up to ``retries`` times; one that
    raises is not, as it would raise again. Ready stages start in order of ``cost``, largest first.

    The work is done by ``workers`` processes (default: one per core), by an ``engine``, which is
    left open, or, with ``inline``, by this process. On KeyboardInterrupt the workers are killed;
    the next run resumes their stages from the work folders.

    >>> import tempfile
    >>> stage = Stage("nothing", {"n": 1}, run="builtins:repr")
    >>> with tempfile.TemporaryDirectory() as root:
    ...     first = run([stage], Store(root), inline=True)
    ...     again = run([stage], Store(root), inline=True)
    >>> len(first.done), len(again.done), len(again.found)
    (1, 0, 1)
    """
    if retries < 0:
        raise InvalidInput(f"`retries` should be at least 0. (got {retries})")
    began = time.perf_counter()
    # Find what is missing.
    graph = Graph(stages, store)
    if graph.missing:
        store.prepare()
    # Compute it. A lent engine stays open, unless the run was interrupted.
    used = engine or _engine(store, workers, len(graph.missing), inline=inline)
    loop = Loop(graph, store, used, retries, report or _silent, keep_going=keep_going)
    interrupted = True
    try:
        loop.run()
        interrupted = False
    finally:
        if interrupted or engine is None:
            used.close(kill=interrupted)
    loop.summary.seconds = time.perf_counter() - began
    return loop.summary


def _engine(store: Store, workers: int | None, tasks: int, *, inline: bool) -> Engine:
    if inline:
        return InlineEngine(store)
    local = LocalEngine(store, workers)
    local.capacity = max(1, min(local.capacity, tasks))  # the workers share the threads
    return local


def _silent(event: Event) -> None:
    pass


class Loop:
    """The state of a run: which stages are left, running, or waiting for another run."""

    def __init__(
        self,
        graph: Graph,
        store: Store,
        engine: Engine,
        retries: int,
        report: Report,
        *,
        keep_going: bool,
    ) -> None:
        self.graph, self.store, self.engine = graph, store, engine
        self.retries, self.report, self.keep_going = retries, report, keep_going
        self.summary = RunSummary()
        self.stopped = False
        self.running: dict[str, Stage] = {}
        self.waiting: dict[str, tuple[float, float]] = {}  # when to check again, and the pause
        self.left = dict(graph.missing)
        self.attempts: dict[str, int] = {}

    def run(self) -> None:
        """Run until every stage has ended, or until the run was stopped and nothing is running."""
        for stage in self.graph.found:
            self._found(stage)
        for stage in self.left.values():
            self.report(Event("planned", stage))
        while self.left and not (self.stopped and not self.running):
            self._submit()
            if self.running:
                for message in self.engine.poll(self._timeout()):
                    self._handle(message)
            else:
                time.sleep(self._timeout())
            self._check_waiting()
        for stage in list(self.left.values()):
            self._skip(stage, None)

    def _submit(self) -> None:
        while not self.stopped:
            capacity = self.engine.capacity
            if capacity is not None and len(self.running) >= capacity:
                return
            stage = self.graph.take()
            if stage is None:
                return
            self.running[stage.key] = stage
            self.engine.submit(stage.task)
            if stage.key not in self.waiting:
                self.report(Event("started", stage))

    def _handle(self, message: Progress | TaskResult) -> None:
        stage = self.running[message.key]
        if isinstance(message, Progress):
            self.report(Event("progress", stage, message.done, message.total, message.text))
            return
        del self.running[message.key]
        self.summary.warnings.extend(message.warnings)
        if message.status == "busy":
            self._wait(stage)
            return
        self.waiting.pop(stage.key, None)
        if message.status == "done":
            self._completed(stage)
            self.summary.done.append(stage)
            self.report(Event("done", stage, seconds=message.seconds))
        elif message.status == "found":
            self._completed(stage)
            self._found(stage)
        else:
            self._failed(stage, message)

    def _completed(self, stage: Stage) -> None:
        del self.left[stage.key]
        self.store.forget_failure(stage)
        self.graph.complete(stage)

    def _found(self, stage: Stage) -> None:
        self.summary.found.append(stage)
        self.report(Event("found", stage))

    def _wait(self, stage: Stage) -> None:
        _, pause = self.waiting.get(stage.key, (0.0, 0.05))
        if stage.key not in self.waiting:
            self.report(Event("waiting", stage))
        self.waiting[stage.key] = (time.monotonic() + pause, min(2.0, 1.5 * pause))

    def _check_waiting(self) -> None:
        for key, (when, _) in list(self.waiting.items()):
            if key in self.running or time.monotonic() < when:
                continue
            self.waiting[key] = (float("inf"), self.waiting[key][1])
            self.graph.put_back(self.left[key])

    def _timeout(self) -> float:
        soonest = min((when for when, _ in self.waiting.values()), default=float("inf"))
        return min(1.0, max(0.0, soonest - time.monotonic()))

    def _failed(self, stage: Stage, result: TaskResult) -> None:
        self.attempts[stage.key] = self.attempts.get(stage.key, 0) + 1
        if result.status == "lost" and self.attempts[stage.key] <= self.retries:
            self.report(Event("retried", stage, text=result.message))
            self.graph.put_back(stage)
            return
        details = (result.error, result.message, result.traceback, result.output)
        failure = Failure(stage, *details, self.attempts[stage.key])
        del self.left[stage.key]
        self.summary.failed.append(failure)
        try:
            self.store.record_failure(stage, failure.notes())
        except StorageError as error:
            self.summary.warnings.append(str(error))
        self.report(Event("failed", stage, text=str(failure), seconds=result.seconds))
        for child in self.graph.descendants(stage):
            if child.key in self.left:
                self._skip(child, stage)
        self.stopped = self.stopped or result.hopeless or not self.keep_going

    def _skip(self, stage: Stage, because: Stage | None) -> None:
        del self.left[stage.key]
        self.summary.skipped.append((stage, because))
        self.report(Event("skipped", stage, text="" if because is None else because.title))
