"""Everything but the place of execution is shared: a toy engine is enough to run a graph."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from expunge.dispatch import Engine, run
from expunge.dispatch._engine import StageOutcome
from expunge.dispatch._execute import execute
from expunge.store import Stage, Store
from tests.unit.dispatch.work import stage


class Cluster:
    """Takes every ready task at once; workers die under the first ``deaths`` of them."""

    def __init__(self, store: Store, deaths: int = 0) -> None:
        self.store, self.deaths = store, deaths
        self.tasks: list[Stage] = []
        self.most = 0
        self.closed: bool | None = None

    @property
    def capacity(self) -> int | None:
        return None

    def submit(self, task: Stage) -> None:
        self.tasks.append(task)
        self.most = max(self.most, len(self.tasks))

    def poll(self, timeout: float) -> Iterable[StageOutcome]:
        task = self.tasks.pop()
        if self.deaths > 0:
            self.deaths -= 1
            return [StageOutcome(task, "lost", error="WorkerDied", message="a node went away")]
        return [execute(task, self.store)]

    def close(self, *, kill: bool = False) -> None:
        self.closed = kill


def graph() -> list[Stage]:
    first = [stage("add", n=n) for n in range(4)]
    return [*first, stage("add", *first, n=9)]


def test_an_engine_that_places_by_itself_gets_all_that_is_ready(store: Store) -> None:
    engine = Cluster(store)
    checked: Engine = engine
    assert run(graph(), store, engine=checked).ok
    assert engine.most == 4
    assert engine.closed is None, "an engine that was lent should stay open"


@pytest.mark.parametrize(("deaths", "retries", "ok"), [(1, 0, False), (1, 1, True), (2, 1, False)])
def test_a_lost_stage_is_tried_again_so_often(
    store: Store, deaths: int, retries: int, ok: bool
) -> None:
    one = stage("add", n=1)
    summary = run([one], store, engine=Cluster(store, deaths), retries=retries)
    assert summary.ok == ok
    if not ok:
        assert summary.failed[0].tries == retries + 1
        assert "a node went away" in str(summary.failed[0])


def test_an_engine_is_stopped_when_the_caller_gives_up(store: Store) -> None:
    engine = Cluster(store)

    def give_up(event: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(graph(), store, engine=engine, report=give_up)
    assert engine.closed is True
