"""The way to Ray: join a cluster, or start one on this machine, and say clearly why not."""

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
from expunge.dispatch._environment_variables import variables

_NOISE = "worker died or was killed|retries remaining|memory pressure|marked dead|Task was killed"
"""What Ray prints in the driver although a stage's result tells it."""
_MEMORY = 80_000_000
"""Bytes for Ray's objects on this machine: jobs and results of stages are small."""
_PATIENCE = 5.0

Link = Literal["there", "joined", "started"]


def load() -> Any:
    """The module ``ray``."""
    try:
        with variables({"RAY_DEDUP_LOGS_SKIP_REGEX": _NOISE}):
            return importlib.import_module("ray")
    except ImportError as error:
        raise InvalidInput(
            f"The Ray engine needs Ray: pip install 'expunge[ray]'. ({error})"
        ) from error


def connect(address: str | None, runtime_env: Mapping[str, Any], retries: int) -> Link:
    """Connect this process with Ray: one that was ``there``, or is ``joined`` or ``started`` now.

    Without an address: the connection this process has, or the cluster that ``RAY_ADDRESS``
    names, or a Ray of its own.
    """
    ray = load()
    if ray.is_initialized():
        if address is not None or runtime_env:
            raise InvalidInput(
                "This process is connected with Ray already. Leave `address` and `runtime_env` out "
                "to use that, or call ray.shutdown() first."
            )
        return "there"
    target = _target(address)
    # Ray itself would try a stage that needs too much memory again and again, without end.
    settings = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_task_oom_retries": str(retries)}
    options: dict[str, Any] = {"runtime_env": dict(runtime_env)} if runtime_env else {}
    if target == "local":
        options |= {"include_dashboard": False, "object_store_memory": _MEMORY}
    try:
        with variables(settings), warnings.catch_warnings():
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
    """Tell the loss of the connection as an error that says what to do."""
    try:
        yield
    except ConnectionError as error:
        raise ExpungeError(
            f"The connection with Ray was lost: {error}. Run again: finished stages are kept, and "
            "others go on from their work folders."
        ) from error


def check_resources(cpus: float, gpus: float, link: Link) -> None:
    """Make sure that a node has what a stage asks for, or may get it."""
    nodes = [node["Resources"] for node in load().nodes() if node["Alive"]]
    if any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        return
    lack = f"No node of the Ray cluster has {cpus:g} CPUs and {gpus:g} GPUs for a stage."
    if link == "started":
        raise InvalidInput(f"{lack} Ask for less, or give the `address` of a larger cluster.")
    warnings.warn(f"{lack} Stages wait until one joins.", stacklevel=4)


def _target(address: str | None) -> str:
    """The address to give to Ray, at which somebody answers."""
    chosen = address
    if address in (None, "auto"):
        chosen = os.environ.get("RAY_ADDRESS") or address
    if chosen in (None, "local"):
        return "local"
    if chosen == "auto":
        chosen = _here()
    place = str(chosen)
    scheme, _, rest = place.rpartition("://")
    if scheme in ("", "ray"):
        _knock(place, rest)
    return place


def _here() -> str:
    """The address of the cluster this machine is a node of."""
    try:
        services = importlib.import_module("ray._private.services")
        return str(services.canonicalize_bootstrap_address("auto"))
    except (ImportError, AttributeError):  # Ray has moved it: let it look by itself
        return "auto"
    except ConnectionError as error:
        raise ExpungeError(
            "No Ray runs on this machine. Start one (`ray start --head`), or give the `address` of "
            "a cluster."
        ) from error


def _knock(address: str, place: str) -> None:
    """Raise unless a gRPC server listens; Ray itself would try for a quarter of an hour."""
    try:
        parts = urlsplit(f"//{place}")
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
        socket.create_connection((host, port), timeout=_PATIENCE).close()
    except OSError as error:
        raise ExpungeError(f"Cannot reach Ray at {address}: {error}. {advice}") from error
    if not _speaks_grpc(f"{host}:{port}"):
        raise ExpungeError(f"What listens at {address} is not Ray. {advice}")


def _speaks_grpc(place: str) -> bool:
    if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
        return True  # who knows the certificates will find out
    try:
        grpc = importlib.import_module("grpc")
    except ImportError:
        return True
    with grpc.insecure_channel(place) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=_PATIENCE)
        except grpc.FutureTimeoutError:
            return False
    return True
