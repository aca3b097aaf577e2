"""The local engine: worker processes on this machine, started once and used for all jobs."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from expunge._errors import ExpungeError, InvalidInput
from expunge.dispatch import _worker as worker
from expunge.dispatch._captured_output import tail
from expunge.dispatch._engine import Progress, Result
from expunge.dispatch._environment_variables import POOLS, variables
from expunge.store import Job, Store
from expunge.store._environment import cores

_STARTS = 3
"""So many workers in a row may die before they are ready."""


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection[Job | None, object]
    job: Job | None = None
    ready: bool = False


class LocalEngine:
    """``workers`` processes (one a core unless told) that share the cores' threads evenly.

    Processes start when there is a job for them. One that dies fails its own job and is replaced;
    all of them end when this process does. Give one engine to several :func:`run` calls to keep
    the processes between them, and close it at the end.
    """

    def __init__(self, store: Store, workers: int | None = None) -> None:
        if workers is not None and workers < 1:
            raise InvalidInput(f"`workers` should be at least 1. (got {workers})")
        self.store = store
        self.capacity = workers or cores()
        self._workers: list[_Worker] = []
        self._stillborn = 0

    @property
    def processes(self) -> list[int]:
        """The process ids of the workers."""
        return [each.process.pid or 0 for each in self._workers]

    def submit(self, job: Job) -> None:
        """Hand a job to an idle worker, started now if need be."""
        idle = self._idle() or self._start()
        idle.job = job
        with suppress(OSError):  # it is dead, which `poll` will notice
            idle.pipe.send(job)

    def poll(self, timeout: float) -> Iterable[Progress | Result]:
        """News of the workers, and of their deaths."""
        pipes = [each.pipe for each in self._workers if each.job is not None]
        if not pipes:
            return []
        # A child of a dead worker may hold its pipe open, so look at the processes now and then.
        heard = wait(pipes, min(timeout, 0.25))
        news: list[Progress | Result] = []
        for each in [each for each in self._workers if each.job is not None]:
            dead = each.process.exitcode is not None
            if each.pipe in heard or dead:
                news.extend(self._listen(each))
            if dead:
                news.extend(self._bury(each))
        return news

    def close(self, *, kill: bool = False) -> None:
        """End the workers: idle ones at once, busy ones when they are done, or killed."""
        for each in self._workers:
            with suppress(OSError):
                if kill:
                    each.process.kill()
                else:
                    each.pipe.send(None)
        for each in self._workers:
            each.process.join(None if each.job and not kill else 10)
            if each.process.exitcode is None:
                each.process.kill()
                each.process.join()
            each.pipe.close()
            each.process.close()
        self._workers.clear()

    def _idle(self) -> _Worker | None:
        for each in [each for each in self._workers if each.job is None]:
            if each.process.exitcode is None:
                return each
            list(self._bury(each))
        return None

    def _listen(self, each: _Worker) -> Iterator[Progress | Result]:
        with suppress(EOFError, OSError):
            while each.pipe.poll():
                message = each.pipe.recv()
                if isinstance(message, worker.Ready):
                    each.ready, self._stillborn = True, 0
                elif isinstance(message, Progress):
                    yield message
                elif isinstance(message, Result):
                    each.job = None
                    yield message

    def _bury(self, each: _Worker) -> Iterator[Result]:
        self._workers.remove(each)
        code, job = each.process.exitcode or 0, each.job
        each.pipe.close()
        each.process.close()
        if job is None:
            return
        if each.ready:
            output = tail(self.store.root / ".work" / job.key)
            yield Result(job.key, "lost", error="WorkerDied", message=_cause(code), output=output)
            return
        self._stillborn += 1
        if self._stillborn >= _STARTS:
            raise ExpungeError(
                f"{_STARTS} workers in a row ended while starting. {_cause(code)} A script that "
                "runs stages should do so below `if __name__ == '__main__':`, as workers import it."
            )
        self.submit(job)

    def _start(self) -> _Worker:
        threads = max(1, cores() // self.capacity)
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=worker.main, args=(theirs, self.store.root, threads))
        with _no_interrupts(), variables(dict.fromkeys(POOLS, str(threads))):
            process.start()
            self._workers.append(_Worker(process, ours))
        theirs.close()
        return self._workers[-1]


def _cause(code: int) -> str:
    if code >= 0:
        return f"The worker ended with exit code {code}."
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = " Perhaps the memory was exhausted." if name == "SIGKILL" else ""
    return f"The worker was killed ({name}).{hint}"


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block Ctrl-C: workers inherit that while they start, and this process gets it afterwards."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
