"""Processes that a launcher such as ``torchrun`` started."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from expunge._errors import InvalidInput, LostProcess

MAX_TIMEOUT = 1e8
"""Seconds, some three years: longer ones overflow the clock of a process group."""

if TYPE_CHECKING:
    from expunge.distributed._group import Group

_NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def launched_rank() -> int:
    """Which of the launcher's processes this is; 0 where there is no launcher."""
    return int(os.environ["RANK"]) if launched_size() > 1 else 0


def launched_size() -> int:
    """How many processes a launcher started; 1 where there is none."""
    if not all(name in os.environ for name in _NEEDED):
        return 1
    return int(os.environ["WORLD_SIZE"])


def check_timeout(timeout: float) -> None:
    """Raise unless ``timeout`` is a number of seconds that can be waited for."""
    if not timeout > 0:
        raise InvalidInput(f"`timeout` should be positive. (got {timeout})")
    if timeout > MAX_TIMEOUT:
        raise InvalidInput(f"`timeout` should be at most {MAX_TIMEOUT:g} s. (got {timeout})")


@contextmanager
def launched_group(device: str = "auto", timeout: float = 1800.0) -> Iterator[Group]:
    """Within, the launcher's processes form one group; without a launcher, this process alone."""
    check_timeout(timeout)

    from expunge.distributed._group import SINGLE, as_group, reporting_lost_processes

    if launched_size() == 1:
        yield SINGLE
        return
    import torch.distributed as dist

    backend = _choose_backend(device)
    with reporting_lost_processes():
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
    with _stopped_by_launcher():
        group = as_group("auto")
        yield group
        group.any(False)  # waits for all: none leaves while another still talks
        dist.destroy_process_group()


def _choose_backend(device: str) -> str:
    """Give this process its GPU, where GPUs are used, and name the backend."""
    import torch

    if device.startswith("cuda:"):
        raise InvalidInput(
            f"With a launcher, every process takes a GPU of its own: use `cuda`. (got {device})"
        )
    if not device.startswith("cuda") and not (device == "auto" and torch.cuda.is_available()):
        return "gloo"
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    return "cpu:gloo,cuda:nccl"


@contextmanager
def _stopped_by_launcher() -> Iterator[None]:
    """Within, SIGTERM, by which a launcher that lost a process ends the others, raises an error."""

    def stop(*_: Any) -> None:
        raise LostProcess(
            "This process was told to stop, as launchers do when another process of the job has "
            "ended. Run the same command again to resume from the checkpoint."
        )

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except BaseException:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it is ending already
        raise
    signal.signal(signal.SIGTERM, before)
