"""What an engine is: somewhere to execute jobs. Graph, store and locks are not its business."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from expunge.store import Job, Stage

Status = Literal["done", "found", "busy", "failed", "lost"]


@dataclass(frozen=True)
class Progress:
    """A running job's word on how far it is."""

    key: str
    done: float
    total: float | None
    text: str


@dataclass(frozen=True)
class Result:
    """How a job ended.

    ``done``: run and stored. ``found``: another process had stored it. ``busy``: another process
    is at it. ``failed``: it raised. ``lost``: its worker died. ``hopeless`` tells that the disk is
    full or read-only, so that other jobs would fail as well.
    """

    key: str
    status: Status
    seconds: float = 0.0
    error: str = ""
    message: str = ""
    traceback: str = ""
    output: str = ""
    warnings: tuple[str, ...] = ()
    hopeless: bool = False


@dataclass(frozen=True)
class Event:
    """What a ``report`` callback receives.

    At the start each stage is either ``found`` or ``planned``; a planned one is ``started``, may
    be ``waiting`` (for another run that is at it) or tried again (``retried``), and ends as
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
    """Executes jobs by calling :func:`expunge.dispatch._execute.execute` somewhere.

    ``capacity`` is how many jobs may be submitted at a time; None leaves placing to the engine
    (a cluster), which then gets every ready job at once.
    """

    @property
    def capacity(self) -> int | None: ...

    def submit(self, job: Job) -> None:
        """Start a job."""

    def poll(self, timeout: float) -> Iterable[Progress | Result]:
        """Wait up to ``timeout`` seconds for news; every submitted job gets one result.

        Called only while jobs are under way.
        """

    def close(self, *, kill: bool = False) -> None:
        """Let the workers go; with ``kill``, whatever they are doing."""
