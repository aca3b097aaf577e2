"""What the function of a stage is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from expunge.store import Entry

Teller = Callable[[float, float | None, str], None]


def _nobody(done: float, total: float | None, text: str) -> None:
    pass


@dataclass(frozen=True)
class Context:
    """The argument of a stage's function.

    Write result files into ``folder``; all that is there when the function returns is the result,
    but for names that begin with a dot, which are scratch. The folder survives a kill and is
    handed to the next attempt: a checkpoint in it lets the stage go on. Random generators are
    seeded from the key, so what ran before in the same worker does not matter.
    """

    config: dict[str, Any]
    parents: tuple[Entry, ...]
    folder: Path
    options: dict[str, Any] = field(default_factory=dict)
    key: str = ""
    title: str = ""
    tell: Teller = _nobody

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Say how far the stage is; calls are cheap and may be frequent."""
        self.tell(done, total, text)
