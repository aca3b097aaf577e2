"""The Ray engine: every job a Ray task, on this machine or on a cluster."""

from __future__ import annotations

import math
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

import torch

from expunge._errors import InvalidInput
from expunge.dispatch import _ray_cluster as cluster
from expunge.dispatch._captured_output import flush_lines, tail
from expunge.dispatch._engine import Progress, Result
from expunge.dispatch._environment_variables import POOLS
from expunge.dispatch._execute import execute
from expunge.dispatch._throttle import Throttle
from expunge.store import Job, Store
from expunge.store._durable import storage

_MARKS = ".nodes"
_PAUSE = 0.25


class RayEngine:
    """Stages as Ray tasks of ``cpus`` cores and ``gpus`` GPUs each; Ray places them.

    ``address`` is ``"host:port"`` or ``"auto"`` from a node of a cluster, ``"ray://host:port"``
    from outside. Without one: the connection this process has, else the cluster ``RAY_ADDRESS``
    names, else a Ray started on this machine, which ends with the engine.

    A stage whose worker or node dies is tried ``retries`` times more, on any node, and goes on
    from its work folder; then it fails (after the ``retries`` of :func:`run`, if any). One that
    raises is not tried again.

    The store has to be on a file system that all nodes share, at the same path, with file locks
    that hold between nodes: NFS 4 (not mounted with ``nolock`` or ``local_lock``), Lustre (with
    ``flock``), CephFS, GPFS. A node that does not see it fails its stages. Locks of a node that
    died are given back by the file system, with NFS after a minute or so; until then the retried
    stage waits.

    Each node needs this package and the module of the stage's function, of the same versions;
    ``runtime_env`` (see Ray) can send your own modules along: ``{"working_dir": "."}``. The
    device ``auto`` is right everywhere: Ray shows a task its own GPUs only, and none if ``gpus``
    is 0. A fraction lets stages share one.
    """

    capacity = None

    def __init__(
        self,
        store: Store,
        *,
        address: str | None = None,
        cpus: float = 1,
        gpus: float = 0,
        retries: int = 2,
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        _check(cpus, gpus, retries)
        self.store, self.address = store, address
        self.cpus, self.gpus, self.retries = cpus, gpus, retries
        self.runtime_env = dict(runtime_env or {})
        self._mark = store.root / _MARKS / uuid.uuid4().hex
        self._running: dict[Any, str] = {}
        self._mailbox: Any = None
        self._asked: Any = None
        self._open()

    def submit(self, job: Job) -> None:
        """Hand a job to Ray."""
        if self._mailbox is None:
            self._open()
        with storage(f"write to {self.store.root}"):
            self._mark.parent.mkdir(exist_ok=True)
            self._mark.touch()
        threads = max(1, int(self.cpus))
        with cluster.connection():
            task = self._task.remote(job, self._mark, threads, self._mailbox)
        self._running[task] = job.key

    def poll(self, timeout: float) -> Iterable[Progress | Result]:
        """What Ray has finished or given up, and the latest progress of the rest."""
        tasks = list(self._running)
        if not tasks:
            return []
        with cluster.connection():
            self._ray.wait(tasks, num_returns=1, timeout=min(timeout, _PAUSE))
            news: list[Progress | Result] = list(self._words())
            finished, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=0)
            news.extend(self._result(task) for task in finished)
        return news

    def close(self, *, kill: bool = False) -> None:
        """Wait for what is running, or kill it; end Ray if this engine started it."""
        if self._mailbox is None:
            return
        with suppress(Exception):  # a cluster that is gone needs no goodbye
            for task in self._running if kill else ():
                self._ray.cancel(task, force=True)
            if tasks := list(self._running):
                self._ray.wait(tasks, num_returns=len(tasks), timeout=10 if kill else None)
            self._ray.kill(self._mailbox)
        self._running.clear()
        self._mailbox = self._asked = None
        with suppress(OSError):
            self._mark.unlink(missing_ok=True)
        self._leave()

    def _leave(self) -> None:
        if self._link != "there":
            self._ray.shutdown()

    def _open(self) -> None:
        self._link = cluster.connect(self.address, self.runtime_env, self.retries)
        self._ray = cluster.load()
        try:
            cluster.check_resources(self.cpus, self.gpus, self._link)
            self._mailbox = _mailbox(self._ray)
        except BaseException:
            self._leave()
            raise
        variables = dict.fromkeys(POOLS, str(max(1, int(self.cpus))))
        if not self.gpus:
            variables["CUDA_VISIBLE_DEVICES"] = ""
        self._task = self._ray.remote(perform).options(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            max_retries=self.retries,
            retry_exceptions=False,
            runtime_env={"env_vars": variables},
        )

    def _words(self) -> Iterator[Progress]:
        """What the mailbox answered to the last question; it is never waited for."""
        if self._asked is not None and self._ray.wait([self._asked], timeout=0)[0]:
            asked, self._asked = self._asked, None
            with suppress(self._ray.exceptions.RayError):
                words = [Progress(*word) for word in self._ray.get(asked)]
                running = set(self._running.values())
                yield from (word for word in words if word.key in running)
        if self._asked is None:
            self._asked = self._mailbox.take.remote()

    def _result(self, task: Any) -> Result:
        key = self._running.pop(task)
        try:
            result: Result = self._ray.get(task)
            return result
        except self._ray.exceptions.RayTaskError as error:  # before the stage itself could begin
            cause = getattr(error, "cause", error)
            name, text = type(cause).__name__, str(cause)
            return Result(key, "failed", error=name, message=text, traceback=str(error))
        except self._ray.exceptions.RuntimeEnvSetupError as error:
            return Result(key, "failed", error="RuntimeEnvSetupError", message=str(error))
        except self._ray.exceptions.RayError as error:
            tries = f" It was tried {self.retries + 1} times." if self.retries else ""
            message = f"Ray lost the worker or the node of the stage.{tries} {_summary(error)}"
            output = tail(self.store.root / ".work" / key)
            return Result(key, "lost", error=type(error).__name__, message=message, output=output)


def perform(job: Job, mark: Path, threads: int, mailbox: Any) -> Result:
    """The task: executes a job on whichever node it finds itself."""
    root = mark.parent.parent
    if not mark.exists():
        return Result(job.key, "failed", error="StorageError", message=_elsewhere(root))

    def send(progress: Progress) -> None:
        with suppress(Exception):  # a lost word is no reason to fail
            mailbox.put.remote(*astuple(progress))

    flush_lines()
    torch.set_num_threads(int(job.options.get("threads") or threads))
    return execute(job, Store(root), Throttle(send, job.key, _PAUSE), capture=True)


def _elsewhere(root: Path) -> str:
    return (
        f"The node {socket.gethostname()} does not see the store {root}. Put it on a file system "
        "that all nodes share, at the same path."
    )


def _mailbox(ray: Any) -> Any:
    """An actor that keeps the latest word of each stage until it is asked for."""

    class Mailbox:  # here, it is sent as it is: importing this package takes its process seconds
        def __init__(self) -> None:
            self.words: dict[str, tuple[object, ...]] = {}

        def put(self, *word: object) -> None:
            self.words[str(word[0])] = word

        def take(self) -> list[tuple[object, ...]]:
            words, self.words = self.words, {}
            return list(words.values())

    return ray.remote(num_cpus=0, max_restarts=-1)(Mailbox).remote()


def _summary(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 600 else f"{text[:600]}…"


def _check(cpus: float, gpus: float, retries: int) -> None:
    if not (math.isfinite(cpus) and cpus > 0):
        raise InvalidInput(f"`cpus` should be greater than 0. (got {cpus})")
    if not (math.isfinite(gpus) and gpus >= 0) or (gpus > 1 and gpus != int(gpus)):
        raise InvalidInput(f"`gpus` should be a fraction of one, or whole. (got {gpus})")
    if retries < 0:
        raise InvalidInput(f"`retries` should be at least 0. (got {retries})")
