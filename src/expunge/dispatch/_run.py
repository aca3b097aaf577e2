"""Run a graph of stages on an engine."""

from __future__ import annotations

import time
from collections.abc import Iterable

from expunge._errors import InvalidInput
from expunge.dispatch._engine import Engine, Event, Report
from expunge.dispatch._graph import Graph
from expunge.dispatch._inline import InlineEngine
from expunge.dispatch._local import LocalEngine
from expunge.dispatch._loop import Loop
from expunge.dispatch._outcome import Outcome
from expunge.store import Stage, Store


def run(
    stages: Iterable[Stage],
    store: Store,
    *,
    workers: int | None = None,
    retries: int = 0,
    report: Report | None = None,
    keep_going: bool = True,
    inline: bool = False,
    engine: Engine | None = None,
) -> Outcome:
    """Bring ``stages``, and the ancestors they need, into the store.

    What is there is not run again; what is damaged is set aside, with a warning, and run again; a
    stage another run is at is waited for. A stage that raises fails its descendants, not the rest
    (unless ``keep_going`` is off, or the disk is full: then what is running is finished and the
    rest skipped). A stage whose worker dies is tried ``retries`` times more; one that raises is
    not, as it would raise again. Ready stages start in order of ``cost``, the largest first.

    ``workers`` processes do the work (one a core unless told), or an ``engine``, which is left
    open, or, ``inline``, this process. On KeyboardInterrupt the workers are killed; the next run
    takes their stages up from the work folders.

    >>> import tempfile
    >>> stage = Stage("nothing", {"n": 1}, run="builtins:repr")
    >>> with tempfile.TemporaryDirectory() as root:
    ...     first = run([stage], Store(root), inline=True)
    ...     again = run([stage], Store(root), inline=True)
    >>> len(first.done), len(again.done), len(again.found)
    (1, 0, 1)
    """
    if retries < 0:
        raise InvalidInput(f"`retries` should be at least 0. (got {retries})")
    began = time.perf_counter()
    graph = Graph(stages, store)
    if graph.missing:
        store.prepare()
    used = engine or _engine(store, workers, len(graph.missing), inline=inline)
    loop = Loop(graph, store, used, retries, report or _silent, keep_going=keep_going)
    killed = True
    try:
        loop.run()
        killed = False
    finally:
        if killed or engine is None:
            used.close(kill=killed)
    loop.outcome.seconds = time.perf_counter() - began
    return loop.outcome


def _engine(store: Store, workers: int | None, jobs: int, *, inline: bool) -> Engine:
    if inline:
        return InlineEngine(store)
    local = LocalEngine(store, workers)
    local.capacity = max(1, min(local.capacity, jobs))  # threads are shared by those that work
    return local


def _silent(event: Event) -> None:
    pass
