"""The Ray engine: every stage a Ray task, on this machine or on a cluster."""

from __future__ import annotations

import math
import socket
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple
from functools import partial
from pathlib import Path
from typing import Any

import torch

from expunge._errors import InvalidInput
from expunge._files import storage_errors
from expunge.dispatch import _ray_cluster as cluster
from expunge.dispatch._engine import Progress, TaskResult
from expunge.dispatch._execute import execute
from expunge.dispatch._worker_process import (
    THREAD_VARIABLES,
    ThrottledProgress,
    flush_every_line,
    output_tail,
)
from expunge.store import StageTask, Store

_MARKS = ".nodes"
_PAUSE = 0.25


class RayEngine:
    """Stages as Ray tasks of ``cpus`` cores and ``gpus`` GPUs each; Ray places them.

    ``address`` is ``"host:port"`` or ``"auto"`` from a node of a cluster, ``"ray://host:port"``
    from outside. Without one: the connection this process has, else the cluster ``RAY_ADDRESS``
    names, else a Ray started on this machine, which ends with the engine.

    A stage whose worker or node dies is retried up to ``retries`` times, on any node, and resumes
    from its work folder; then it fails (after the ``retries`` of :func:`run`, if any). One that
    raises is not retried.

    The store has to be on a file system that all nodes share, at the same path, with file locks
    that hold between nodes: NFS 4 (not mounted with ``nolock`` or ``local_lock``), Lustre (with
    ``flock``), CephFS, GPFS. A node that does not see it fails its stages. The file system releases
    the locks of a node that died, with NFS after a minute or so; until then the retried stage
    waits.

    Each node needs this package and the module of the stage's function, in the same versions;
    ``runtime_env`` (see Ray) can send your own modules along: ``{"working_dir": "."}``. The
    device ``auto`` is right everywhere: Ray shows a task only the GPUs assigned to it, and none if
    ``gpus`` is 0. A fraction lets stages share a GPU.
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
        self._running: dict[Any, StageTask] = {}
        self._mailbox: Any = None
        self._mail_request: Any = None
        self._open()

    def submit(self, task: StageTask) -> None:
        """Hand a task to Ray."""
        if self._mailbox is None:
            self._open()
        with storage_errors(f"write to {self.store.root}"):
            self._mark.parent.mkdir(exist_ok=True)
            self._mark.touch()
        threads = max(1, int(self.cpus))
        with cluster.connection():
            reference = self._remote.remote(task, self._mark, threads, self._mailbox)
        self._running[reference] = task

    def poll(self, timeout: float) -> Iterable[Progress | TaskResult]:
        """Collect what Ray has finished or given up, and the latest progress of the rest."""
        references = list(self._running)
        if not references:
            return []
        with cluster.connection():
            self._ray.wait(references, num_returns=1, timeout=min(timeout, _PAUSE))
            messages: list[Progress | TaskResult] = list(self._mail())
            finished, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
            messages.extend(self._result(reference) for reference in finished)
        return messages

    def close(self, *, kill: bool = False) -> None:
        """Wait for what is running, or kill it; stop Ray if this engine started it."""
        if self._mailbox is None:
            return
        with suppress(Exception):  # a cluster that is gone needs no goodbye
            for reference in self._running if kill else ():
                self._ray.cancel(reference, force=True)
            if references := list(self._running):
                timeout = 10 if kill else None
                self._ray.wait(references, num_returns=len(references), timeout=timeout)
            self._ray.kill(self._mailbox)
        self._running.clear()
        self._mailbox = self._mail_request = None
        with suppress(OSError):
            self._mark.unlink(missing_ok=True)
        self._disconnect()

    def _disconnect(self) -> None:
        if self._link != "there":
            self._ray.shutdown()

    def _open(self) -> None:
        self._link = cluster.connect(self.address, self.runtime_env, self.retries)
        self._ray = cluster.load()
        try:
            cluster.check_resources(self.cpus, self.gpus, self._link)
            self._mailbox = _mailbox(self._ray)
        except BaseException:
            self._disconnect()
            raise
        variables = dict.fromkeys(THREAD_VARIABLES, str(max(1, int(self.cpus))))
        if not self.gpus:
            variables["CUDA_VISIBLE_DEVICES"] = ""
        self._remote = self._ray.remote(perform).options(
            num_cpus=self.cpus,
            num_gpus=self.gpus,
            max_retries=self.retries,
            retry_exceptions=False,
            runtime_env={"env_vars": variables},
        )

    def _mail(self) -> Iterator[Progress]:
        """The mailbox's answer to the last request, if it is there; never wait for it."""
        request = self._mail_request
        if request is not None and self._ray.wait([request], timeout=0)[0]:
            self._mail_request = None
            with suppress(self._ray.exceptions.RayError):
                messages = [Progress(*fields) for fields in self._ray.get(request)]
                running = {task.key for task in self._running.values()}
                yield from (message for message in messages if message.key in running)
        if self._mail_request is None:
            self._mail_request = self._mailbox.take.remote()

    def _result(self, reference: Any) -> TaskResult:
        task = self._running.pop(reference)
        failed = partial(TaskResult, task.key, "failed")
        try:
            result: TaskResult = self._ray.get(reference)
            return result
        except self._ray.exceptions.RayTaskError as error:  # before the stage itself could begin
            cause = getattr(error, "cause", error)
            name = type(cause).__name__
            return failed(error=name, message=str(cause), traceback=str(error))
        except self._ray.exceptions.RuntimeEnvSetupError as error:
            return failed(error="RuntimeEnvSetupError", message=str(error))
        except self._ray.exceptions.RayError as error:
            tries = f" It was tried {self.retries + 1} times." if self.retries else ""
            return TaskResult(
                task.key,
                "lost",
                error=type(error).__name__,
                message=f"Ray lost the worker or the node of the stage.{tries} {_summary(error)}",
                output=output_tail(self.store.work_path(task)),
            )


def perform(task: StageTask, mark: Path, threads: int, mailbox: Any) -> TaskResult:
    """Execute a task on whichever node this is: the function that Ray runs."""
    root = mark.parent.parent
    if not mark.exists():
        message = (
            f"The node {socket.gethostname()} does not see the store {root}. Put it on a file "
            "system that all nodes share, at the same path."
        )
        return TaskResult(task.key, "failed", error="StorageError", message=message)

    def send(progress: Progress) -> None:
        with suppress(Exception):  # a lost message is no reason to fail
            mailbox.put.remote(*astuple(progress))

    flush_every_line()
    torch.set_num_threads(int(task.options.get("threads") or threads))
    return execute(task, Store(root), ThrottledProgress(send, task.key, _PAUSE), capture=True)


def _mailbox(ray: Any) -> Any:
    """An actor that keeps the latest progress of each stage until it is collected."""

    class Mailbox:  # local, so it is sent by value: importing this package would take seconds
        def __init__(self) -> None:
            self.messages: dict[str, tuple[object, ...]] = {}

        def put(self, *message: object) -> None:
            self.messages[str(message[0])] = message

        def take(self) -> list[tuple[object, ...]]:
            messages, self.messages = self.messages, {}
            return list(messages.values())

    return ray.remote(num_cpus=0, max_restarts=-1)(Mailbox).remote()


def _summary(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 600 else f"{text[:600]}…"


def _check(cpus: float, gpus: float, retries: int) -> None:
    if not (math.isfinite(cpus) and cpus > 0):
        raise InvalidInput(f"`cpus` should be greater than 0. (got {cpus})")
    if not (math.isfinite(gpus) and gpus >= 0) or (gpus > 1 and gpus != int(gpus)):
        raise InvalidInput(
            f"`gpus` should be a fraction of one GPU, or a whole number. (got {gpus})"
        )
    if retries < 0:
        raise InvalidInput(f"`retries` should be at least 0. (got {retries})")
