"""Run a graph of stages on an engine."""

from __future__ import annotations

import time
from collections.abc import Iterable

from expunge._errors import InvalidInput
from expunge.dispatch._engine import Engine, Event, Report
from expunge.dispatch._graph import Graph
from expunge.dispatch._local import InlineEngine, LocalEngine
from expunge.dispatch._loop import Loop
from expunge.dispatch._summary import RunSummary
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
) -> RunSummary:
    """Compute ``stages``, and the ancestors they need, into the store.

    What is stored is not run again; what is damaged is set aside, with a warning, and run again; a
    stage that another run is computing is waited for. A stage that raises fails its descendants but
    nothing else (unless ``keep_going`` is off, or the disk is full: then running stages finish and
    the rest are skipped). A stage whose worker dies is retried up to ``retries`` times; one that
    raises is not, as it would raise again. Ready stages start in order of ``cost``, largest first.

    The work is done by ``workers`` processes (default: one per core), by an ``engine``, which is
    left open, or, with ``inline``, by this process. On KeyboardInterrupt the workers are killed;
    the next run resumes their stages from the work folders.

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
    # Find what is missing.
    graph = Graph(stages, store)
    if graph.missing:
        store.prepare()
    # Compute it. A lent engine stays open, unless the run was interrupted.
    used = engine or _engine(store, workers, len(graph.missing), inline=inline)
    loop = Loop(graph, store, used, retries, report or _silent, keep_going=keep_going)
    interrupted = True
    try:
        loop.run()
        interrupted = False
    finally:
        if interrupted or engine is None:
            used.close(kill=interrupted)
    loop.summary.seconds = time.perf_counter() - began
    return loop.summary


def _engine(store: Store, workers: int | None, tasks: int, *, inline: bool) -> Engine:
    if inline:
        return InlineEngine(store)
    local = LocalEngine(store, workers)
    local.capacity = max(1, min(local.capacity, tasks))  # the workers share the threads
    return local


def _silent(event: Event) -> None:
    pass
