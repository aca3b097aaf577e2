"""Connect to Ray: join a cluster or start one on this machine, with errors that explain."""

from __future__ import annotations

import importlib
import logging
import os
import socket
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Literal
from urllib.parse import urlsplit

from expunge._errors import ExpungeError, InvalidInput
from expunge.dispatch._worker_process import environment_defaults
from expunge.store import cores

_NOISE = "worker died or was killed|retries remaining|memory pressure|marked dead|Task was killed"
"""What Ray prints in the driver although the result of a stage already says it."""
_MEMORY = 80_000_000
"""Bytes for Ray's objects on this machine: tasks and their results are small."""
_TIMEOUT = 5.0

Link = Literal["there", "joined", "started"]


def load() -> Any:
    """The module ``ray``."""
    try:
        with environment_defaults({"RAY_DEDUP_LOGS_SKIP_REGEX": _NOISE}):
            return importlib.import_module("ray")
    except ImportError as error:
        raise InvalidInput(
            f"The Ray engine needs Ray: pip install 'expunge[ray]'. ({error})"
        ) from error


def connect(address: str | None, runtime_env: Mapping[str, Any], retries: int) -> Link:
    """Connect this process to Ray: it was ``there``, or is now ``joined`` or ``started``.

    Without an address: the existing connection of this process, or the cluster that
    ``RAY_ADDRESS`` names, or a new Ray on this machine.
    """
    ray = load()
    if ray.is_initialized():
        if address is not None or runtime_env:
            raise InvalidInput(
                "This process is connected to Ray already. Leave `address` and `runtime_env` out "
                "to use that, or call ray.shutdown() first."
            )
        return "there"
    target = _target(address)
    # By default, Ray would retry a stage that needs too much memory without end.
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(retries)}
    options: dict[str, Any] = {"runtime_env": dict(runtime_env)} if runtime_env else {}
    if target == "local":
        options |= {"num_cpus": cores(), "object_store_memory": _MEMORY, "include_dashboard": False}
    try:
        with environment_defaults(settings), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ray.init(target, log_to_driver=False, logging_level=logging.ERROR, **options)
    except Exception as error:
        with suppress(Exception):
            ray.shutdown()
        if target == "local":
            raise ExpungeError(f"Could not start Ray on this machine: {error}") from error
        raise ExpungeError(
            f"Could not join Ray at {target}: {error}. The versions of Ray and Python here, and "
            "the token (RAY_AUTH_TOKEN) if there is one, should be those of the cluster."
        ) from error
    return "started" if target == "local" else "joined"


@contextmanager
def connection() -> Iterator[None]:
    """Turn the loss of the connection into an error that says what to do."""
    try:
        yield
    except ConnectionError as error:
        raise ExpungeError(
            f"The connection to Ray was lost: {error}. Run again: finished stages are kept, and "
            "the others resume from their work folders."
        ) from error


def check_resources(cpus: float, gpus: float, link: Link) -> None:
    """Check that some node has what a stage needs; warn if one may still join."""
    nodes = [node["Resources"] for node in load().nodes() if node["Alive"]]
    if any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        return
    problem = f"No node of the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs for a stage."
    if link == "started":
        raise InvalidInput(f"{problem} Request less, or give the `address` of a larger cluster.")
    warnings.warn(f"{problem} Stages wait until one joins.", stacklevel=4)


def _target(address: str | None) -> str:
    """Resolve ``address`` to what Ray takes; raise if no Ray answers there."""
    chosen = address
    if address in (None, "auto"):
        chosen = os.environ.get("RAY_ADDRESS") or address
    if chosen in (None, "local"):
        return "local"
    if chosen == "auto":
        chosen = _local_address()
    target = str(chosen)
    scheme, _, host_and_port = target.rpartition("://")
    if scheme in ("", "ray"):
        _check_reachable(target, host_and_port)
    return target


def _local_address() -> str:
    """The address of the cluster that this machine is a node of."""
    try:
        services = importlib.import_module("ray._private.services")
        return str(services.canonicalize_bootstrap_address("auto"))
    except (ImportError, AttributeError):  # Ray has moved it: let Ray look for the address
        return "auto"
    except ConnectionError as error:
        raise ExpungeError(
            "Ray is not running on this machine. Start it (`ray start --head`), or give the "
            "`address` of a cluster."
        ) from error


def _check_reachable(address: str, host_and_port: str) -> None:
    """Raise unless a gRPC server listens; Ray would keep trying for a quarter of an hour."""
    try:
        parts = urlsplit(f"//{host_and_port}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port:
        raise InvalidInput(
            f"`address` should be 'host:port', 'ray://host:port' or 'auto'. (got {address!r})"
        )
    advice = (
        "Is the cluster up, and is this its port? (6379 from a node of the cluster, "
        "ray://host:10001 from outside)"
    )
    try:
        socket.create_connection((host, port), timeout=_TIMEOUT).close()
    except OSError as error:
        raise ExpungeError(f"Cannot reach Ray at {address}: {error}. {advice}") from error
    if not _speaks_grpc(f"{host}:{port}"):
        raise ExpungeError(f"What listens at {address} is not Ray. {advice}")


def _speaks_grpc(host_and_port: str) -> bool:
    if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return True  # left to Ray, which has the certificates
    try:
        grpc = importlib.import_module("grpc")
    except ImportError:
        return True
    with grpc.insecure_channel(host_and_port) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_TIMEOUT)
        except grpc.FutureTimeoutError:
            return False
    return True
