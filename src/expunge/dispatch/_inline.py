"""An engine that executes jobs where it stands, for tests and examples."""

from __future__ import annotations

from collections.abc import Iterable

from expunge.dispatch._engine import Progress, Result
from expunge.dispatch._execute import execute
from expunge.store import Job, Store


class InlineEngine:
    """One job at a time, in the calling process, with nothing captured."""

    capacity = 1

    def __init__(self, store: Store) -> None:
        self.store = store
        self._jobs: list[Job] = []

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def poll(self, timeout: float) -> Iterable[Progress | Result]:
        news: list[Progress | Result] = []
        for job in self._jobs:

            def tell(done: float, total: float | None, text: str, key: str = job.key) -> None:
                news.append(Progress(key, done, total, text))

            news.append(execute(job, self.store, tell))
        self._jobs.clear()
        return news

    def close(self, *, kill: bool = False) -> None:
        self._jobs.clear()
