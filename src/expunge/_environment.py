"""The versions and the hardware that a result was computed with."""

from __future__ import annotations

import functools
import os
import platform
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch


def versions() -> dict[str, str]:
    """Versions of this package, torch and Python, and the machine."""
    from expunge import __version__

    return {
        "expunge": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {torch.get_num_threads()} threads",
    }


def environment() -> dict[str, Any]:
    """Versions and hardware of this process; the caller adds the times."""
    return {"versions": versions() | {"numpy": np.__version__}, "hardware": dict(hardware())}


@functools.cache
def hardware() -> dict[str, Any]:
    """Host, system, processor, cores, GPUs."""
    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "gpus": gpus,
    }


def cores() -> int:
    """Number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def now() -> str:
    """The current time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return platform.processor()
    names = [line.partition(":")[2].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.processor()
