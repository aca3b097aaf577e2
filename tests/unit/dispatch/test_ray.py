"""On Ray the same graphs end the same way, though Ray places, retries and loses workers.

Tests that need a running Ray take long, most of it for starting Ray and its workers.
"""

from __future__ import annotations

import gc
import importlib.util
import inspect
import json
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from expunge._errors import ExpungeError, InvalidInput
from expunge.bench._protocol_file import load_protocol
from expunge.bench._run import collect, run_planned
from expunge.bench._stages import plan
from expunge.dispatch import Engine, Event, InlineEngine, RunSummary, run
from expunge.dispatch._engine import StageOutcome
from expunge.dispatch._execute import PAUSE
from expunge.dispatch._ray import RayEngine, load_ray, perform
from expunge.store import Stage, Store
from tests.unit.bench.tiny_protocol import timeless, write_tiny
from tests.unit.dispatch.work import stage, wait_for

if importlib.util.find_spec("ray") is None:
    pytest.skip("needs Ray", allow_module_level=True)
ray = load_ray()  # as the engine does: what Ray prints depends on how it is imported


LIMITS = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_agent_register_timeout_ms": "600000",
    "RAY_worker_register_timeout_seconds": "600",
}
"""Generous limits for the processes that Ray starts: on a busy machine their imports take long."""


class SlowClock:
    """The module ``time``, but for a clock on which a busy machine has ten minutes in thirty s."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def monotonic(self) -> float:
        return time.monotonic() / 20


def start_raylet_without_waiting(*given: Any, **named: Any) -> Any:
    """Start a raylet that knows the ports of its helpers.

    Otherwise it gives each helper 15 seconds to start and write its port to a file, and dies if
    that takes longer. No limit can be set for this. A port of -1 means that a helper is not in use.
    """
    call = inspect.signature(START_RAYLET).bind(*given, **named)
    place = str(call.arguments["session_dir"]), str(call.arguments["node_id"])
    for name in ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port"):
        ray._raylet.persist_port(*place, name, -1)
    with socket.socket() as free:
        free.bind(("", 0))
        call.arguments["runtime_env_agent_port"] = free.getsockname()[1]
    return START_RAYLET(*call.args, **call.kwargs)


START_RAYLET = ray._private.services.start_raylet


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """Ray on this machine, for two tasks at a time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in LIMITS.items():
            patch.setenv(name, value)
        patch.setattr("ray._private.node.time", SlowClock())  # Ray allows its start 30 s
        patch.setattr("ray._private.services.start_raylet", start_raylet_without_waiting)
        ray.init(
            "local",
            num_cpus=2,
            num_gpus=0,
            include_dashboard=False,
            log_to_driver=False,
            logging_level="ERROR",
            object_store_memory=80_000_000,
        )
    yield
    ray.shutdown()
    with warnings.catch_warnings():  # Ray kills its processes and does not wait for them
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="module")
def engine(cluster: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayEngine]:
    """An engine on a store of its own (``engine.store``)."""
    engine = RayEngine(Store(tmp_path_factory.mktemp("ray") / "store"), retries=1)
    yield engine
    engine.close()


def contents(store: Store, of: Stage) -> dict[str, bytes]:
    """What should not depend on the engine."""
    entry = store.open(of)
    return {name: entry.path(name).read_bytes() for name in (*entry.files, "config.json")}


def facts(store: Store, of: Stage) -> dict[str, Any]:
    read: dict[str, Any] = json.loads(store.open(of).path("facts.json").read_text())
    return read


def go(engine: RayEngine, *stages: Stage, **options: Any) -> RunSummary:
    return run(stages, engine.store, engine=engine, **options)


@pytest.mark.thorough
def test_a_graph_gives_what_it_gives_without_ray(
    engine: RayEngine, store: Store, tmp_path: Path
) -> None:
    checked: Engine = engine
    options = {"log": str(tmp_path / "log")}
    first = [stage("add", n=n, test="graph", options=options) for n in range(3)]
    last = stage("add", *first, n=9, test="graph", options=options)
    stages = [last, *first, stage("count", test="graph")]
    summary = run(stages, engine.store, engine=checked)
    assert len(summary.done) == len(stages)
    assert (tmp_path / "log").read_text().split()[-1] == "9", "a child ran before its parents"
    run(stages, store, engine=InlineEngine(store)).check()
    assert [contents(engine.store, one) for one in stages] == [contents(store, s) for s in stages]
    again = go(engine, *stages)
    assert (len(again.done), len(again.found)) == (0, len(stages))


@pytest.mark.thorough
@pytest.mark.usefixtures("one_thread")  # as a worker with one CPU has
def test_a_protocol_gives_the_same_records_as_without_ray(
    engine: RayEngine, tmp_path: Path
) -> None:
    planned = plan(load_protocol(write_tiny(tmp_path)), device="cpu")
    alone = Store(tmp_path / "alone")
    run_planned(planned, alone, engine=InlineEngine(alone)).check()
    run_planned(planned, engine.store, engine=engine).check()
    both = [timeless(collect(planned, store)) for store in (alone, engine.store)]
    assert len(both[0]) == 5
    assert both[0] == both[1]


@pytest.mark.thorough
def test_a_worker_is_seeded_quiet_and_has_the_threads_of_its_cpus(
    engine: RayEngine, store: Store
) -> None:
    one = stage("tell", test="facts")
    go(engine, one).check()
    run([one], store, engine=InlineEngine(store)).check()
    told = facts(engine.store, one)
    assert (told["threads"], told["terminal"]) == (1, False)
    assert told["drawn"] == facts(store, one)["drawn"]


@pytest.mark.thorough
def test_a_failure_fails_its_descendants_and_nothing_else(engine: RayEngine) -> None:
    bad, good = stage("fail", test="ray"), stage("add", n=1, test="ray")
    child = stage("add", bad, n=2)
    summary = go(engine, bad, child, good)
    assert summary.done == [good]
    assert summary.skipped == [(child, bad)]
    (failure,) = summary.failed
    assert (failure.error, failure.output) == ("ValueError", "about to fail\n")
    assert "in fail" in failure.traceback
    assert not (engine.store.root / ".work" / bad.key / "tries").exists()


@pytest.mark.thorough
def test_a_killed_worker_is_replaced_and_goes_on_from_the_work_folder(
    engine: RayEngine, store: Store, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    one = stage("count_and_die", options={"log": str(log)})
    child = stage("die", one, deaths=1, test="ray")
    summary = go(engine, child)
    assert summary.done == [one, child]
    assert engine.store.open(child).path("tries").read_text() == "xx"
    assert engine.store.open(one).environment["tries"] == 2
    steps = [int(step) for step in log.read_text().split()]
    assert set(steps) == set(range(20))
    assert len(steps) <= 21, "more than a step was lost at the kill"
    like = stage("count")
    run([like], store, engine=InlineEngine(store)).check()
    drawn = engine.store.open(one).path("deep/drawn.json").read_bytes()
    assert drawn == store.open(like).path("deep/drawn.json").read_bytes()
    assert "".join(capfd.readouterr()) == "", "Ray should not print"


@pytest.mark.thorough
def test_a_worker_that_always_dies_fails_its_stage_and_the_rest_goes_on(engine: RayEngine) -> None:
    bad, good = stage("die", deaths=99, test="always"), stage("add", n=1, test="always")
    child = stage("add", bad, n=2)
    summary = go(engine, bad, good, child)
    assert summary.done == [good]
    assert summary.skipped == [(child, bad)]
    (failure,) = summary.failed
    assert failure.error == "WorkerCrashedError"
    assert "lost the worker or the node of the stage. It was tried 2 times" in failure.message
    assert failure.output.startswith("about to die\n")
    with engine.store.lock(bad):
        pass


@pytest.mark.thorough
def test_progress_arrives(engine: RayEngine, tmp_path: Path) -> None:
    steps: list[float] = []

    def report(event: Event) -> None:
        if event.what == "progress":
            steps.append(event.done)
        if len(steps) == 3:
            (tmp_path / "seen").touch()

    one = stage("report_until", options={"until": str(tmp_path / "seen")})
    go(engine, one, report=report).check()
    assert len(steps) >= 3
    assert steps == sorted(steps)
    seconds = engine.store.open(one).seconds
    assert len(steps) <= 2 + seconds / PAUSE, "progress should be sent a few times per second"


@pytest.mark.thorough
def test_two_runs_at_once_do_each_stage_once(engine: RayEngine, tmp_path: Path) -> None:
    options = {"log": str(tmp_path / "log"), "sleep": 0.05}
    first = [stage("add", n=n, test="twice", options=options) for n in range(4)]
    stages = [*first, *(stage("add", one, n=9, test="twice", options=options) for one in first)]
    other = RayEngine(engine.store)
    start = threading.Barrier(2)

    def both(one: RayEngine) -> RunSummary:
        start.wait()
        return go(one, *stages)

    with ThreadPoolExecutor(2) as pool:
        summaries = list(pool.map(both, [engine, other]))
    other.close()
    assert all(summary.ok for summary in summaries)
    assert sum(len(summary.done) for summary in summaries) == len(stages)
    assert len((tmp_path / "log").read_text().split()) == len(stages)
    assert ray.is_initialized(), "an engine should leave a Ray alone that it did not start"


@pytest.mark.thorough
def test_an_interrupt_here_kills_the_tasks(cluster: None, store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"

    def interrupt(event: Event) -> None:
        if event.what == "started":
            wait_for(lambda: log.exists() and log.read_text().split())
            raise KeyboardInterrupt

    engine = RayEngine(store)
    sleeper = stage("sleep", test="ray", options={"log": str(log)})
    with pytest.raises(KeyboardInterrupt):
        go(engine, sleeper, report=interrupt)
    with store.lock(sleeper):
        pass
    engine.close()  # a second time


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_node_that_does_not_see_the_store_says_so(tmp_path: Path, is_empty: bool) -> None:
    if is_empty:  # as where a file system is not mounted
        (tmp_path / "store").mkdir()
    result = perform(stage("add", n=1), tmp_path / "store", 1, False)
    assert isinstance(result, StageOutcome)
    assert (result.status, result.error) == ("failed", "StorageError")
    assert "a file system that all nodes share" in result.message
    assert not list(tmp_path.glob("store/*"))


@pytest.mark.thorough
def test_what_no_node_has_is_told(cluster: None, store: Store) -> None:
    with pytest.warns(UserWarning, match="No node of the Ray cluster has 1 CPUs and 7 GPUs"):
        RayEngine(store, gpus=7).close()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"cpus": 0}, "cpus"),
        ({"gpus": -1}, "gpus"),
        ({"gpus": 1.5}, "gpus"),
        ({"retries": -1}, "retries"),
        ({"address": "localhost:1"}, "connected to Ray already"),
    ],
)
def test_wrong_arguments_are_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], complaint: str
) -> None:
    monkeypatch.setattr(ray, "is_initialized", lambda: True)
    with pytest.raises(InvalidInput, match=complaint):
        RayEngine(store, **options)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a process that is not connected with Ray."""
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.parametrize("scheme", ["", "ray://"])
@pytest.mark.usefixtures("alone")
def test_an_address_where_nobody_answers_is_told_soon(store: Store, scheme: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(ExpungeError, match=r"Cannot reach Ray at .*Is the cluster up"):
        RayEngine(store, address=f"{scheme}127.0.0.1:{port}")
    assert time.monotonic() - began < 100, "Ray itself would try for a quarter of an hour"


@pytest.mark.parametrize("address", ["nonsense", "host:", "ray://host", "host:port", "http://a:1"])
@pytest.mark.usefixtures("alone")
def test_an_address_of_another_form_is_refused(store: Store, address: str) -> None:
    with pytest.raises(InvalidInput, match="host:port"):
        RayEngine(store, address=address)


def test_without_ray_the_remedy_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InvalidInput, match=r"pip install 'expunge\[ray\]'"):
        RayEngine(store)
