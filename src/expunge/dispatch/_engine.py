"""The interface of an engine: where stages are executed, and how they ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from expunge._environment import now
from expunge.store import Stage

OutcomeStatus = Literal["done", "found", "busy", "failed", "lost"]


@dataclass(frozen=True)
class StageOutcome:
    """How an attempt at a stage ended.

    ``done``: run and stored. ``found``: another process had stored it. ``busy``: another process
    is running it. ``failed``: it raised. ``lost``: its worker died. ``hopeless`` says that the disk
    is full or read-only, so that other stages would fail as well. A stage that has failed for good
    is also noted in the store, in ``.failed/<key>.json``, with the number of ``tries``.
    """

    stage: Stage
    status: OutcomeStatus
    seconds: float = 0.0
    error: str = ""
    message: str = ""
    traceback: str = ""
    output: str = ""
    warnings: tuple[str, ...] = ()
    hopeless: bool = False
    tries: int = 1

    def notes(self) -> dict[str, object]:
        """What the store keeps of a failure."""
        stage = {name: getattr(self.stage, name) for name in ("kind", "key", "title")}
        names = ("error", "message", "traceback", "output", "tries")
        return stage | {name: getattr(self, name) for name in names} | {"when": now()}

    def __str__(self) -> str:
        return f"{self.stage.title}: {self.error}: {self.message}"


@dataclass(frozen=True)
class Event:
    """The argument of a ``report`` callback.

    At the start each stage is either ``found`` or ``planned``; a planned one is ``started``, may
    be ``waiting`` (for another run that is computing it) or tried again (``retried``), and ends as
    ``done``, ``found``, ``failed`` or ``skipped`` (an ancestor failed).
    """

    what: Literal[
        "planned", "started", "progress", "waiting", "retried", "done", "found", "failed", "skipped"
    ]
    stage: Stage
    done: float = 0.0
    total: float | None = None
    text: str = ""
    seconds: float = field(default=0.0, kw_only=True)


Report = Callable[[Event], None]


class Engine(Protocol):
    """Executes stages by calling :func:`expunge.dispatch._execute.execute` somewhere.

    ``capacity`` is how many stages may be submitted at a time; None leaves placing to the engine
    (a cluster), which then gets every ready stage at once.
    """

    @property
    def capacity(self) -> int | None: ...

    def submit(self, stage: Stage) -> None:
        """Start a stage."""

    def poll(self, timeout: float) -> Iterable[StageOutcome]:
        """Wait up to ``timeout`` seconds for stages that end; every submitted one gets one result.

        Called only while stages are running.
        """

    def close(self, *, kill: bool = False) -> None:
        """Stop the workers: when they have finished their stages, or at once with ``kill``."""
