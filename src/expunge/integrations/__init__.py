"""Other people's training loops; each needs its own package, imported when it is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from expunge.integrations._hf_trainer import UnlearningTrainer as UnlearningTrainer

__all__ = ["UnlearningTrainer"]


def __getattr__(name: str) -> Any:
    if name != "UnlearningTrainer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from expunge.integrations._hf_trainer import UnlearningTrainer

    return UnlearningTrainer
