"""The engine of this machine: worker processes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from pathlib import Path

import torch

from expunge._environment import cores
from expunge._errors import ExpungeError
from expunge._kinds import Count, check_kind
from expunge.dispatch._engine import StageOutcome
from expunge.dispatch._execute import execute, output_tail
from expunge.store import Stage, Store

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Libraries with their own thread pools read these when they are loaded."""
ALLOCATOR = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=4294967296:"
    "glibc.malloc.trim_threshold=8589934592:glibc.malloc.top_pad=268435456"
}
"""Every step frees and asks for the same large tensors again: glibc should keep their pages."""


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection[Stage | None, StageOutcome | None]
    stage: Stage | None = None
    ready: bool = False


class LocalEngine:
    """``workers`` processes (default: one per core) that share the cores' threads evenly.

    Processes start when there is a stage for them. One that dies fails only its own stage and is
    replaced; all of them end when this process does. Pass one engine to several :func:`run` calls
    to keep the processes between them, and close it at the end.
    """

    def __init__(self, store: Store, workers: int | None = None) -> None:
        check_kind("workers", Count | None, workers)
        self.store = store
        self.capacity = workers or cores()
        self._workers: list[_Worker] = []

    @property
    def processes(self) -> list[int]:
        """The process ids of the workers."""
        return [worker.process.pid or 0 for worker in self._workers]

    def submit(self, stage: Stage) -> None:
        """Hand a stage to an idle worker; start one if there is none."""
        worker = self._idle_worker() or self._start_worker()
        worker.stage = stage
        with suppress(OSError):  # it is dead, which `poll` will notice
            worker.pipe.send(stage)

    def poll(self, timeout: float) -> Iterable[StageOutcome]:
        """Collect the workers' results, and notice those that died."""
        busy = [worker for worker in self._workers if worker.stage is not None]
        if not busy:
            return []
        # A child of a dead worker may hold its pipe open, so check the processes now and then.
        readable = wait([worker.pipe for worker in busy], min(timeout, 0.25))
        results: list[StageOutcome] = []
        for worker in busy:
            dead = worker.process.exitcode is not None
            if worker.pipe in readable or dead:
                results.extend(self._receive(worker))
            if dead:
                results.extend(self._remove_dead(worker))
        return results

    def close(self, *, kill: bool = False) -> None:
        """End the workers: idle ones at once, busy ones when they are done, or killed."""
        for worker in self._workers:
            with suppress(OSError):
                if kill:
                    worker.process.kill()
                else:
                    worker.pipe.send(None)
        for worker in self._workers:
            worker.process.join(None if worker.stage and not kill else 10)
            if worker.process.exitcode is None:
                worker.process.kill()
                worker.process.join()
            worker.pipe.close()
            worker.process.close()
        self._workers.clear()

    def _idle_worker(self) -> _Worker | None:
        for worker in [worker for worker in self._workers if worker.stage is None]:
            if worker.process.exitcode is None:
                return worker
            self._remove_dead(worker)
        return None

    def _receive(self, worker: _Worker) -> Iterator[StageOutcome]:
        with suppress(EOFError, OSError):
            while worker.pipe.poll():
                result = worker.pipe.recv()
                if result is None:
                    worker.ready = True
                else:
                    worker.stage = None
                    yield result

    def _remove_dead(self, worker: _Worker) -> list[StageOutcome]:
        """Drop a dead worker; its stage is lost."""
        self._workers.remove(worker)
        cause, stage = _cause(worker.process.exitcode or 0), worker.stage
        worker.pipe.close()
        worker.process.close()
        if not worker.ready:
            raise ExpungeError(
                f"A worker ended while it started. {cause} A script that runs stages should do so "
                "below `if __name__ == '__main__':`, as workers import it."
            )
        if stage is None:
            return []
        output = output_tail(self.store.work_path(stage))
        return [StageOutcome(stage, "lost", error="WorkerDied", message=cause, output=output)]

    def _start_worker(self) -> _Worker:
        threads = _threads_per_worker(self.capacity)
        spawn = multiprocessing.get_context("spawn")
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=worker_main, args=(theirs, self.store.root, threads))
        defaults = dict.fromkeys(THREAD_VARIABLES, str(threads)) | ALLOCATOR
        with _no_interrupts(), environment_defaults(defaults):
            process.start()
            self._workers.append(_Worker(process, ours))
        theirs.close()
        return self._workers[-1]


def _threads_per_worker(workers: int) -> int:
    """The share of one of ``workers`` in the cores, but no more than OMP_NUM_THREADS allows."""
    share = max(1, cores() // workers)
    limit = os.environ.get("OMP_NUM_THREADS", "")
    return min(share, int(limit)) if limit.isdecimal() and int(limit) else share


def _cause(code: int) -> str:
    if code >= 0:
        return f"The worker ended with exit code {code}."
    name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
    hint = " Perhaps the memory was exhausted." if name == "SIGKILL" else ""
    return f"The worker was killed ({name}).{hint}"


@contextmanager
def environment_defaults(values: Mapping[str, str]) -> Iterator[None]:
    """Set the environment variables that the user has not set; unset them at the end."""
    missing = {name: value for name, value in values.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


@contextmanager
def _no_interrupts() -> Iterator[None]:
    """Block Ctrl-C: workers inherit that while they start, and this process gets it afterwards."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# Below: what runs in the worker process.


def worker_main(
    pipe: Connection[StageOutcome | None, Stage | None], root: Path, threads: int
) -> None:
    """Execute stages from ``pipe`` until there are no more, or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # interrupts are the parent's, which blocked them
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    threading.Thread(target=_exit_with_the_parent, daemon=True).start()
    threads = min(threads, torch.get_num_threads())  # the user may have asked for fewer
    store = Store(root)
    pipe.send(None)  # ready
    while True:
        try:
            stage = pipe.recv()
        except (EOFError, OSError):
            stage = None
        if stage is None:
            return
        torch.set_num_threads(int(stage.options.get("threads") or threads))
        pipe.send(execute(stage, store, capture=True))


def _exit_with_the_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
