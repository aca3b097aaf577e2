"""The Ray engine: every stage a task of a Ray cluster."""

from __future__ import annotations

import importlib
import logging
import os
import re
import socket
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from expunge._errors import ExpungeError, InvalidInput
from expunge._kinds import NaturalNumber, NotNegative, Positive, check_arguments
from expunge.dispatch._engine import StageOutcome
from expunge.dispatch._execute import execute, output_tail
from expunge.dispatch._local import environment_defaults
from expunge.store import Stage, Store

_PAUSE = 0.25
_TIMEOUT = 5.0
_NOISE = "worker died or was killed|retries remaining|memory pressure|marked dead|Task was killed"
"""What Ray prints in the driver although the result of a stage already says it."""


class RayEngine:
    """Stages as Ray tasks of ``cpus`` cores and ``gpus`` GPUs each; Ray places them.

    ``address`` is ``"host:port"`` or ``"auto"`` from a node of a cluster, ``"ray://host:port"``
    from outside. Without one: the connection this process has, else the cluster ``RAY_ADDRESS``
    names, else the one that this machine is a node of.

    A stage whose worker or node dies is retried up to ``retries`` times, on any node, and resumes
    from its work folder; then it fails (after the ``retries`` of :func:`run`, if any). One that
    raises is not retried.

    All nodes see the store at the same path, with file locks that hold between them, and have this
    package and the stages' modules, which ``runtime_env`` (see Ray) can send along. A stage sees
    only the GPUs that Ray assigned to it; a fraction lets stages share one.
    """

    capacity = None

    def __init__(
        self,
        store: Store,
        *,
        address: str | None = None,
        cpus: Positive = 1,
        gpus: NotNegative = 0,
        retries: NaturalNumber = 2,
        runtime_env: Mapping[str, Any] | None = None,
    ) -> None:
        check_arguments(RayEngine.__init__, locals())
        if gpus > 1 and gpus != int(gpus):
            raise InvalidInput(
                f"`gpus` should be a fraction of one GPU, or a whole number. (got {gpus})"
            )
        self.store, self.retries = store, retries
        self._ray = load_ray()
        self._joined = _connect(self._ray, address, dict(runtime_env or {}), retries)
        _warn_if_too_small(self._ray, cpus, gpus)
        self._gpus, self._threads = gpus, max(1, int(cpus))
        self._remote = self._ray.remote(perform).options(
            num_cpus=cpus, num_gpus=gpus, max_retries=retries, retry_exceptions=False
        )
        self._running: dict[Any, Stage] = {}

    def submit(self, stage: Stage) -> None:
        """Hand a stage to Ray."""
        with _lost_connection():
            arguments = (stage, self.store.root, self._threads, bool(self._gpus))
            self._running[self._remote.remote(*arguments)] = stage

    def poll(self, timeout: float) -> Iterable[StageOutcome]:
        """Collect what Ray has finished or given up."""
        references = list(self._running)
        with _lost_connection():
            self._ray.wait(references, num_returns=1, timeout=min(timeout, _PAUSE))
            finished, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
            return [self._result(reference) for reference in finished]

    def close(self, *, kill: bool = False) -> None:
        """Wait for what is running, or kill it; leave the cluster if this engine joined it."""
        with suppress(Exception):  # a cluster that is gone needs no goodbye
            for reference in self._running if kill else ():
                self._ray.cancel(reference, force=True)
            if references := list(self._running):
                timeout = 10 if kill else None
                self._ray.wait(references, num_returns=len(references), timeout=timeout)
        self._running.clear()
        if self._joined:
            self._ray.shutdown()
            self._joined = False

    def _result(self, reference: Any) -> StageOutcome:
        stage = self._running.pop(reference)
        errors = self._ray.exceptions
        try:
            result: StageOutcome = self._ray.get(reference)
            return result
        except (errors.RayTaskError, errors.RuntimeEnvSetupError) as error:  # the stage never began
            cause = getattr(error, "cause", None) or error
            name, text = type(cause).__name__, str(error)
            return StageOutcome(stage, "failed", error=name, message=str(cause), traceback=text)
        except errors.RayError as error:
            tries = f" It was tried {self.retries + 1} times." if self.retries else ""
            why = " ".join(str(error).split())[:600]
            return StageOutcome(
                stage,
                "lost",
                error=type(error).__name__,
                message=f"Ray lost the worker or the node of the stage.{tries} {why}",
                output=output_tail(self.store.work_path(stage)),
            )


def perform(stage: Stage, root: Path, threads: int, has_gpus: bool) -> StageOutcome:
    """Execute a stage on whichever node this is: the function that Ray runs."""
    store = Store(root)
    if not store.exists:  # the run created it
        message = (
            f"The node {socket.gethostname()} does not see the store {root}. Put it on a file "
            "system that all nodes share, at the same path."
        )
        return StageOutcome(stage, "failed", error="StorageError", message=message)
    if not has_gpus:  # Ray hides those of other stages, but not from a stage without any
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.set_num_threads(int(stage.options.get("threads") or threads))
    return execute(stage, store, capture=True)


def load_ray() -> Any:
    """The module ``ray``."""
    try:
        with environment_defaults({"RAY_DEDUP_LOGS_SKIP_REGEX": _NOISE}):
            return importlib.import_module("ray")
    except ImportError as error:
        raise InvalidInput(
            f"The Ray engine needs Ray: pip install 'expunge[ray]'. ({error})"
        ) from error


def _connect(ray: Any, address: str | None, runtime_env: dict[str, Any], retries: int) -> bool:
    """Join a cluster, unless this process has done so; whether it was done here."""
    if ray.is_initialized():
        if address is not None or runtime_env:
            raise InvalidInput(
                "This process is connected to Ray already. Leave `address` and `runtime_env` out "
                "to use that, or call ray.shutdown() first."
            )
        return False
    if address in (None, "auto"):
        address = os.environ.get("RAY_ADDRESS") or "auto"
    if address != "auto":
        _check_reachable(str(address))
    # By default, Ray would retry a stage that needs too much memory without end.
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(retries)}
    options = {"runtime_env": runtime_env} if runtime_env else {}
    try:
        with environment_defaults(settings), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(address, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        with suppress(Exception):
            ray.shutdown()
        remedy = (
            "Start Ray on this machine (`ray start --head`), or give the address of a cluster."
            if address == "auto"
            else "The versions of Ray and Python here, and the token (RAY_AUTH_TOKEN) if there is "
            "one, should be those of the cluster."
        )
        raise ExpungeError(f"Could not join Ray at {address}: {error}. {remedy}") from error
    return True


def _check_reachable(address: str) -> None:
    """Raise unless something listens there; Ray would keep trying for a quarter of an hour."""
    parts = re.fullmatch(r"(?:ray://)?([^/]+):(\d{1,5})", address)
    if parts is None:
        raise InvalidInput(
            f"`address` should be 'host:port', 'ray://host:port' or 'auto'. (got {address!r})"
        )
    try:
        place = (parts[1].strip("[]"), int(parts[2]))
        socket.create_connection(place, timeout=_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise ExpungeError(
            f"Cannot reach Ray at {address}: {error}. Is the cluster up, and is this its port? "
            "(6379 from a node of the cluster, ray://host:10001 from outside)"
        ) from error


@contextmanager
def _lost_connection() -> Iterator[None]:
    """Turn the loss of the connection into an error that says what to do."""
    try:
        yield
    except ConnectionError as error:
        raise ExpungeError(
            f"The connection to Ray was lost: {error}. Run again: finished stages are kept, and "
            "the others resume from their work folders."
        ) from error


def _warn_if_too_small(ray: Any, cpus: float, gpus: float) -> None:
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        warnings.warn(
            f"No node of the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs for a stage. Stages "
            "wait until one joins.",
            stacklevel=3,
        )
