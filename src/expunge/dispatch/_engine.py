"""The interface of an engine: where tasks are executed, and how they ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from expunge.store import Stage

TaskStatus = Literal["done", "found", "busy", "failed", "lost"]


@dataclass(frozen=True)
class TaskResult:
    """How a task ended.

    ``done``: run and stored. ``found``: another process had stored it. ``busy``: another process
    is running it. ``failed``: it raised. ``lost``: its worker died. ``hopeless`` says that the disk
    is full or read-only, so that other tasks would fail as well.
    """

    key: str
    status: TaskStatus
    seconds: float = 0.0
    error: str = ""
    message: str = ""
    traceback: str = ""
    output: str = ""
    warnings: tuple[str, ...] = ()
    hopeless: bool = False


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
    """Executes tasks by calling :func:`expunge.dispatch._execute.execute` somewhere.

    ``capacity`` is how many tasks may be submitted at a time; None leaves placing to the engine
    (a cluster), which then gets every ready task at once.
    """

    @property
    def capacity(self) -> int | None: ...

    def submit(self, task: Stage) -> None:
        """Start a task."""

    def poll(self, timeout: float) -> Iterable[TaskResult]:
        """Wait up to ``timeout`` seconds for tasks that end; every submitted one gets one result.

        Called only while tasks are running.
        """

    def close(self, *, kill: bool = False) -> None:
        """Stop the workers: when they have finished their tasks, or at once with ``kill``."""
