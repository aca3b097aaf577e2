"""Workers come and go; stages, locks and the rest of the graph do not mind."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from expunge._environment import cores
from expunge._errors import ExpungeError
from expunge.dispatch import Event, InlineEngine, LocalEngine, _local, run
from expunge.store import Stage, Store
from tests.unit.dispatch.forks import Fork
from tests.unit.dispatch.work import stage, wait_for

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork, 3.12


def alive(process: int) -> bool:
    """Running, and not just a zombie that nobody has waited for."""
    try:
        status = Path(f"/proc/{process}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


def facts(store: Store, of: Stage) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(store.open(of).path("facts.json").read_text())
    return read


def test_workers_are_reused_and_share_the_threads(engine: LocalEngine) -> None:
    first = [stage("tell", test="reuse", n=n) for n in range(4)]
    assert run(first, engine.store, engine=engine).done
    before = engine.processes
    more = [stage("tell", test="reuse", n=n) for n in range(4, 8)]
    assert len(run(more, engine.store, engine=engine).done) == 4
    assert engine.processes == before
    assert len(before) == 2
    told = [facts(engine.store, one) for one in first]
    assert all(fact["threads"] <= max(1, cores() // 2) for fact in told)
    assert not any(fact["terminal"] for fact in told)
    wanted = _local.ALLOCATOR | dict(os.environ)  # what the user has set stays
    assert all(fact["allocator"] == wanted["GLIBC_TUNABLES"] for fact in told)


def test_progress_arrives(engine: LocalEngine, tmp_path: Path) -> None:
    steps: list[float] = []

    def report(event: Event) -> None:
        if event.what == "progress":
            steps.append(event.done)
        if len(steps) == 3:
            (tmp_path / "seen").touch()

    one = stage("report_until", options={"until": str(tmp_path / "seen")})
    run([one], engine.store, engine=engine, report=report).check()
    assert len(steps) >= 3
    assert steps == sorted(steps)


def test_a_worker_takes_no_more_threads_than_the_user_allows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_local, "cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert [_local._threads_per_worker(n) for n in (1, 2, 16)] == [8, 4, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert [_local._threads_per_worker(n) for n in (1, 2, 16)] == [2, 2, 1]
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    assert _local._threads_per_worker(2) == 4


def test_a_failure_in_a_worker_keeps_its_traceback_and_output(engine: LocalEngine) -> None:
    bad, good = stage("fail", test="worker"), stage("add", n=1, test="worker")
    summary = run([bad, good, stage("add", bad, n=2)], engine.store, engine=engine)
    assert summary.done == [good]
    assert len(summary.skipped) == 1
    (failure,) = summary.failed
    assert failure.error == "ValueError"
    assert "in fail" in failure.traceback
    assert failure.output == "about to fail\n"


def test_a_dead_worker_fails_its_stage_and_is_replaced(engine: LocalEngine) -> None:
    bad = stage("die", deaths=1, test="death", cost=9.0)
    child, good = stage("add", bad, n=1), [stage("add", n=n, test="death") for n in range(6)]
    summary = run([bad, child, *good], engine.store, engine=engine)
    assert sorted(one.key for one in summary.done) == sorted(one.key for one in good)
    assert summary.skipped == [(child, bad)]
    (failure,) = summary.failed
    assert failure.error == "WorkerDied"
    assert "SIGKILL" in failure.message
    assert failure.output == "about to die\n"
    assert engine.store.failure(bad) is not None
    assert run([bad], engine.store, engine=engine).done == [bad]  # and the work folder was kept
    assert engine.store.open(bad).path("tries").read_text() == "xx"
    assert engine.store.failure(bad) is None


def test_a_dead_worker_is_noticed_though_its_child_lives_and_its_stage_retried(
    engine: LocalEngine,
) -> None:
    one = stage("die_with_a_child")
    lived: list[bool] = []

    def watch(event: Event) -> None:
        if event.what == "retried":
            child = int((engine.store.root / ".work" / one.key / "child").read_text())
            lived.append(alive(child))
            os.kill(child, signal.SIGKILL)  # it holds the lock, too

    assert run([one], engine.store, engine=engine, retries=1, report=watch).done == [one]
    assert lived == [True]


def test_workers_that_cannot_start_end_the_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_local, "worker_main", print)  # returns at once
    with pytest.raises(ExpungeError, match=r"A worker ended while it started.*__main__"):
        run([stage("add", n=1)], store, workers=1)


def test_a_stage_of_another_run_is_waited_for(engine: LocalEngine, tmp_path: Path) -> None:
    options = {"log": str(tmp_path / "log"), "until": str(tmp_path / "seen")}
    shared = stage("add", n=1, test="wait", options=options)
    child = stage("add", shared, n=2, test="wait", options={"log": str(tmp_path / "log")})
    other = Fork(lambda: len(run([shared], engine.store, engine=InlineEngine(engine.store)).done))
    wait_for((tmp_path / "log").exists)
    events: list[Event] = []

    def report(event: Event) -> None:
        events.append(event)
        if event.what == "waiting":
            (tmp_path / "seen").touch()

    summary = run([shared, child], engine.store, engine=engine, report=report)
    assert other.answer() == 1
    assert (summary.done, summary.found) == ([child], [shared])
    assert ("waiting", shared) in [(event.what, event.stage) for event in events]
    assert (tmp_path / "log").read_text().split() == ["1", "2"]


def test_an_interrupt_here_kills_the_workers(engine: LocalEngine, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def interrupt(event: Event) -> None:
        wait_for(lambda: log.exists() and log.read_text().split())
        raise KeyboardInterrupt

    sleeper = stage("sleep", test="interrupt", options={"log": str(log)})
    with pytest.raises(KeyboardInterrupt):
        run(
            [sleeper],
            engine.store,
            engine=engine,
            report=lambda event: interrupt(event) if event.what == "started" else None,
        )
    assert engine.processes == []
    assert not alive(int(log.read_text()))
    with engine.store.lock(sleeper):
        pass


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks processes up in /proc")
def test_no_worker_outlives_its_parent(tmp_path: Path) -> None:
    parents = {how: Fork(parent_of_a_sleeper(tmp_path / how.name)) for how in ENDS}
    for how, parent in parents.items():
        folder = tmp_path / how.name
        log = folder / "log"
        wait_for(lambda log=log: log.exists() and log.read_text().endswith("\n"))
        worker = int(log.read_text())
        assert alive(worker)
        if how == signal.SIGINT:
            os.killpg(parent.pid, how)  # as a terminal does: to the workers, too
            assert "KeyboardInterrupt" in parent.answer()
        else:
            assert parent.kill_after(0)
        wait_for(lambda worker=worker: not alive(worker))
        assert (folder / "errors").read_text() == ""
        assert list((folder / "store").glob("[!.]*/*/")) == []


ENDS = (signal.SIGINT, signal.SIGKILL)


def parent_of_a_sleeper(folder: Path) -> Callable[[], object]:
    """A process group of its own, with a worker that sleeps."""
    folder.mkdir()

    def go() -> object:
        os.setsid()
        os.dup2(os.open(folder / "errors", os.O_WRONLY | os.O_CREAT), 2)
        sleeper = stage("sleep", options={"log": str(folder / "log")})
        return run([sleeper], Store(folder / "store"), workers=1)

    return go
