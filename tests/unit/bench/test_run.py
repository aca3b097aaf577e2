"""A protocol run, killed, resumed, and how far it is."""

from __future__ import annotations

import random
import shutil
import sys
from pathlib import Path

import pytest

from expunge import dispatch
from expunge.bench._results import BenchRun
from expunge.bench._run import collect, run_planned, stages_of, status
from expunge.dispatch import InlineEngine
from expunge.store import Store
from tests.unit.bench.tiny_protocol import timeless
from tests.unit.dispatch.forks import Fork

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_second_run_does_nothing(planned: list[BenchRun], done: Store) -> None:
    again = run_planned(planned, done, engine=InlineEngine(done))
    assert not again.done
    assert len(again.found) == 4


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize("wanted", [4, pytest.param(20, marks=pytest.mark.thorough)])
def test_kills_at_random_moments_end_with_the_same_results(
    planned: list[BenchRun], done: Store, tmp_path: Path, wanted: int
) -> None:
    store = Store(tmp_path / "store")
    dice = random.Random(1)

    def attempt() -> str:
        return str(run_planned(planned, store, engine=InlineEngine(store)).check())

    kills = rounds = 0
    while kills < wanted and rounds < 60:
        rounds += 1
        kills += Fork(attempt).kill_after(dice.uniform(0.02, 0.4))
        if all(store.has(run.stage) for run in planned):
            whole = stages_of(planned)  # there is nothing left to disturb: take some away
            for stage in (dice.choice(whole), dice.choice(planned).stage):
                shutil.rmtree(store.root / stage.kind / stage.key, ignore_errors=True)
    assert kills == wanted
    attempt()
    assert timeless(collect(planned, store)) == timeless(collect(planned, done))


def test_status_tells_done_failed_damaged_and_missing(
    planned: list[BenchRun], tmp_path: Path
) -> None:
    store = Store(tmp_path / "store")
    assert {one.state for one in status(planned, store)} == {"missing"}
    dispatch.run([planned[0].reference], store, engine=InlineEngine(store)).check()
    store.record_failure(planned[0].stage, {"error": "ValueError", "message": "no luck"})
    store.work(planned[1].stage)
    weights = store.open(planned[0].reference.parents[0]).path("weights.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    found = {one.stage.key: one for one in status(planned, store)}
    assert found[planned[0].reference.parents[1].key].state == "done"
    assert found[planned[0].reference.parents[0].key].state == "damaged"
    assert found[planned[1].stage.key].state == "interrupted"
    failed = found[planned[0].stage.key]
    assert failed.state == "failed"
    assert failed.failure is not None
    assert failed.failure["message"] == "no luck"
    with store.lock(planned[2].stage):
        states = {one.stage.key: one.state for one in status(planned, store)}
    assert states[planned[2].stage.key] == "running"
