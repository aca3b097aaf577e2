"""The versions that a result was computed with."""

from __future__ import annotations

import platform

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
