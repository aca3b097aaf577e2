"""The loop of a run: submit what is ready, handle what comes back."""

from __future__ import annotations

import time
from typing import Any

from expunge._errors import StorageError
from expunge.dispatch._engine import Engine, Event, Progress, Report, TaskResult
from expunge.dispatch._graph import Graph
from expunge.dispatch._summary import Failure, RunSummary
from expunge.store import Stage, Store, now


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
        failure = Failure(
            stage=stage,
            error=result.error,
            message=result.message,
            traceback=result.traceback,
            output=result.output,
            attempts=self.attempts[stage.key],
        )
        del self.left[stage.key]
        self.summary.failed.append(failure)
        self._record(failure)
        self.report(Event("failed", stage, text=str(failure), seconds=result.seconds))
        for child in self.graph.descendants(stage):
            if child.key in self.left:
                self._skip(child, stage)
        self.stopped = self.stopped or result.hopeless or not self.keep_going

    def _skip(self, stage: Stage, because: Stage | None) -> None:
        del self.left[stage.key]
        self.summary.skipped.append((stage, because))
        self.report(Event("skipped", stage, text="" if because is None else because.title))

    def _record(self, failure: Failure) -> None:
        stage = failure.stage
        notes: dict[str, Any] = {"kind": stage.kind, "key": stage.key, "title": stage.title}
        notes |= {name: getattr(failure, name) for name in ("error", "message", "traceback")}
        notes |= {"output": failure.output, "attempts": failure.attempts, "when": now()}
        try:
            self.store.record_failure(stage, notes)
        except StorageError as error:
            self.summary.warnings.append(str(error))
