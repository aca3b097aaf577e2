"""The loop at the heart of a run: submit what is ready, hear what is finished."""

from __future__ import annotations

import time
from typing import Any

from expunge._errors import StorageError
from expunge.dispatch._engine import Engine, Event, Progress, Report, Result
from expunge.dispatch._graph import Graph
from expunge.dispatch._outcome import Failure, Outcome
from expunge.store import Stage, Store
from expunge.store._environment import now


class Loop:
    """The state of a run: what is left, running, and waiting for another run."""

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
        self.outcome = Outcome()
        self.stopped = False
        self.running: dict[str, Stage] = {}
        self.waiting: dict[str, tuple[float, float]] = {}  # when to look again, and the pause
        self.left = dict(graph.missing)
        self.attempts: dict[str, int] = {}

    def run(self) -> None:
        """Go on until every stage is at its end, or the run was stopped and nothing is running."""
        for stage in self.graph.found:
            self._found(stage)
        for stage in self.left.values():
            self.report(Event("planned", stage))
        while self.left and not (self.stopped and not self.running):
            self._submit()
            if self.running:
                for news in self.engine.poll(self._patience()):
                    self._hear(news)
            else:
                time.sleep(self._patience())
            self._look_again()
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
            self.engine.submit(stage.job)
            if stage.key not in self.waiting:
                self.report(Event("started", stage))

    def _hear(self, news: Progress | Result) -> None:
        stage = self.running[news.key]
        if isinstance(news, Progress):
            self.report(Event("progress", stage, news.done, news.total, news.text))
            return
        del self.running[news.key]
        self.outcome.warnings.extend(news.warnings)
        if news.status == "busy":
            self._wait(stage)
            return
        self.waiting.pop(stage.key, None)
        if news.status == "done":
            self._arrived(stage)
            self.outcome.done.append(stage)
            self.report(Event("done", stage, seconds=news.seconds))
        elif news.status == "found":
            self._arrived(stage)
            self._found(stage)
        else:
            self._failed(stage, news)

    def _arrived(self, stage: Stage) -> None:
        del self.left[stage.key]
        self.store.forget_failure(stage)
        self.graph.complete(stage)

    def _found(self, stage: Stage) -> None:
        self.outcome.found.append(stage)
        self.report(Event("found", stage))

    def _wait(self, stage: Stage) -> None:
        _, pause = self.waiting.get(stage.key, (0.0, 0.05))
        if stage.key not in self.waiting:
            self.report(Event("waiting", stage))
        self.waiting[stage.key] = (time.monotonic() + pause, min(2.0, 1.5 * pause))

    def _look_again(self) -> None:
        for key, (when, _) in list(self.waiting.items()):
            if key in self.running or time.monotonic() < when:
                continue
            self.waiting[key] = (float("inf"), self.waiting[key][1])
            self.graph.put_back(self.left[key])

    def _patience(self) -> float:
        soonest = min((when for when, _ in self.waiting.values()), default=float("inf"))
        return min(1.0, max(0.0, soonest - time.monotonic()))

    def _failed(self, stage: Stage, news: Result) -> None:
        self.attempts[stage.key] = self.attempts.get(stage.key, 0) + 1
        if news.status == "lost" and self.attempts[stage.key] <= self.retries:
            self.report(Event("retried", stage, text=news.message))
            self.graph.put_back(stage)
            return
        failure = Failure(
            stage, news.error, news.message, news.traceback, news.output, self.attempts[stage.key]
        )
        del self.left[stage.key]
        self.outcome.failed.append(failure)
        self._record(failure)
        self.report(Event("failed", stage, text=str(failure), seconds=news.seconds))
        for child in self.graph.descendants(stage):
            if child.key in self.left:
                self._skip(child, stage)
        self.stopped = self.stopped or news.hopeless or not self.keep_going

    def _skip(self, stage: Stage, because: Stage | None) -> None:
        del self.left[stage.key]
        self.outcome.skipped.append((stage, because))
        self.report(Event("skipped", stage, text="" if because is None else because.title))

    def _record(self, failure: Failure) -> None:
        stage = failure.stage
        notes: dict[str, Any] = {"kind": stage.kind, "key": stage.key, "title": stage.title}
        notes |= {name: getattr(failure, name) for name in ("error", "message", "traceback")}
        notes |= {"output": failure.output, "attempts": failure.attempts, "when": now()}
        try:
            self.store.record_failure(stage, notes)
        except StorageError as error:
            self.outcome.warnings.append(str(error))
