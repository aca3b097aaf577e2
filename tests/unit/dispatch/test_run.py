"""A graph is run parents first, each stage once, and a failure stays where it belongs."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from expunge._errors import ExpungeError, InvalidInput, StorageError
from expunge.dispatch import Event, InlineEngine, RunSummary, run
from expunge.dispatch._execute import execute
from expunge.store import Stage, Store
from tests.unit.dispatch.forks import Fork
from tests.unit.dispatch.work import stage

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # fork, 3.12


def inline(stages: list[Stage], store: Store, **options: Any) -> RunSummary:
    return run(stages, store, engine=InlineEngine(store), **options)


def value(store: Store, of: Stage) -> int:
    return int(json.loads(store.open(of).path("sum.json").read_text()))


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


@settings(
    max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.lists(st.integers(0, 30), max_size=3), min_size=1, max_size=7))
def test_any_graph_is_run_parents_first_and_once(
    tmp_path_factory: pytest.TempPathFactory, shape: list[list[int]]
) -> None:
    root = tmp_path_factory.mktemp("graph")
    built: list[Stage] = []
    sums: list[int] = []
    for n, links in enumerate(shape):
        parents = [link % n for link in links] if n else []
        options = {"log": str(root / "log")}
        built.append(stage("add", *(built[p] for p in parents), n=n, options=options))
        sums.append(n + sum(sums[p] for p in parents))
    store = Store(root / "store")
    summary = inline([*reversed(built), *built], store)
    assert summary.ok
    assert sorted(lines(root / "log"), key=int) == [str(n) for n in range(len(shape))]
    assert [value(store, one) for one in built] == sums
    again = inline(built, store)
    assert (len(again.done), len(again.found)) == (0, len(shape))


def test_a_long_chain_is_no_deeper_than_a_short_one(store: Store) -> None:
    last = stage("add", n=0)
    for n in range(1, 30):
        last = stage("add", last, n=n)
    assert inline([last], store).ok
    assert value(store, last) == sum(range(30))


def test_the_most_costly_ready_stage_comes_first(store: Store, tmp_path: Path) -> None:
    options = {"log": str(tmp_path / "log")}
    costs = [1.0, 5.0, 3.0, 5.0]
    inline([stage("add", n=n, cost=cost, options=options) for n, cost in enumerate(costs)], store)
    assert lines(tmp_path / "log") == ["1", "3", "2", "0"]


def test_ancestors_of_what_is_there_are_not_needed(store: Store) -> None:
    parent = stage("add", n=1)
    child = stage("add", parent, n=2)
    inline([child], store).check()
    shutil.rmtree(store.open(parent).folder)
    assert inline([child], store).found == [child]
    assert inline([child, parent], store).done == [parent]


def test_a_failure_fails_its_descendants_and_nothing_else(store: Store) -> None:
    bad = stage("fail", n=1)
    child = stage("add", bad, n=2)
    grandchild = stage("add", child, n=3)
    good = stage("add", n=4)
    summary = inline([grandchild, good], store)
    assert summary.done == [good]
    assert summary.skipped == [(child, bad), (grandchild, bad)]
    (failure,) = summary.failed
    assert (failure.stage, failure.error) == (bad, "ValueError")
    assert "in fail" in failure.traceback
    kept = json.loads((store.root / ".failed" / f"{bad.key}.json").read_text())
    assert kept["message"] == "it was not meant to be"
    assert "in fail" in kept["traceback"]
    with pytest.raises(ExpungeError, match=r"1 failed, 2 skipped.*not meant to be"):
        summary.check()


def test_a_failure_made_good_is_forgotten(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = stage("fail")
    inline([bad], store)
    assert store.failure(bad)
    monkeypatch.setattr("tests.unit.dispatch.work.fail", lambda context: None)
    assert inline([bad], store).done == [bad]
    assert store.failure(bad) is None


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (stage("leave"), "SystemExit: 3"),
        (stage("absent"), "InvalidInput: There is no function"),
        (Stage("test", {}, run="no.such.module:f"), "no.such.module"),
        (Stage("test", {}, run="sys:path"), "is not a function"),
        (stage("write_reserved"), "InvalidInput: A stage should not write config.json"),
        (stage("write_link"), "plain files"),
    ],
)
def test_a_stage_that_misbehaves_fails_with_the_reason(
    store: Store, bad: Stage, complaint: str
) -> None:
    (failure,) = inline([bad], store).failed
    assert complaint in str(failure)
    assert not store.has(bad)


def test_a_damaged_result_is_set_aside_and_computed_again(store: Store) -> None:
    parent = stage("add", n=1)
    child = stage("add", parent, n=2)
    inline([child], store).check()
    (store.root / "test" / parent.key / "sum.json").write_text("7")
    summary = inline([parent, child], store)
    assert (summary.done, summary.found) == ([parent], [child])
    (warning,) = summary.warnings
    assert "sum.json" in warning
    assert ".damaged" in warning
    assert value(store, parent) == 1
    (aside,) = (store.root / ".damaged").iterdir()
    assert (aside / "sum.json").read_text() == "7"


def test_results_do_not_depend_on_what_ran_before(store: Store, tmp_path: Path) -> None:
    one, two = stage("tell", n=1), stage("tell", n=2)
    other = Store(tmp_path / "other")
    inline([one, two], store).check()
    inline([two, one], other).check()

    def drawn(where: Store, which: Stage) -> Any:
        return json.loads(where.open(which).path("facts.json").read_text())["drawn"]

    assert drawn(store, one) == drawn(other, one)
    assert drawn(store, one) != drawn(store, two)


def test_events_tell_the_whole_story(store: Store) -> None:
    events: list[Event] = []
    there, bad = stage("add", n=1), stage("fail")
    inline([there], store)
    counting, child = stage("count"), stage("add", bad, n=3)
    inline([there, counting, child], store, report=events.append)
    story = [(event.what, event.stage) for event in events]
    planned = [("planned", one) for one in (counting, child, bad)]
    assert story[:4] == [("found", there), *planned]
    assert set(story[4:]) == {
        ("started", counting),
        ("done", counting),
        ("started", bad),
        ("failed", bad),
        ("skipped", child),
    }


def test_the_environment_of_a_result_is_kept(store: Store) -> None:
    one = stage("add", n=1, options={"device": "cpu"})
    inline([one], store)
    notes = store.open(one).environment
    assert notes["versions"].keys() >= {"expunge", "torch", "python", "numpy"}
    assert notes["hardware"].keys() >= {"processor", "cores", "gpus", "host"}
    assert notes["options"] == {"device": "cpu"}
    assert notes["tries"] == 1
    assert notes["seconds"] >= 0
    assert notes["started"] <= notes["finished"]


def test_two_runs_at_once_do_each_stage_once(store: Store, tmp_path: Path) -> None:
    options = {"log": str(tmp_path / "log")}
    first = [stage("add", n=n, options=options) for n in range(6)]
    # The first stage ends after another one has begun, which takes another process.
    first[0] = stage("add", n=0, options=options | {"company": 2})
    stages = [*first, *(stage("add", first[n - 10], n=n, options=options) for n in range(10, 16))]

    def go() -> tuple[bool, int, int]:
        summary = inline(stages, store)
        return summary.ok, len(summary.done), len(summary.found)

    answers = [child.answer() for child in [Fork(go), Fork(go), Fork(go)]]
    assert all(answer[0] is True for answer in answers), answers
    assert sum(answer[1] for answer in answers) == len(stages)
    assert all(done + found == len(stages) for _, done, found in answers)
    assert sum(answer[1] > 0 for answer in answers) > 1, "the work was not shared"
    assert sorted(lines(tmp_path / "log")) == sorted(str(one.config["n"]) for one in stages)


@pytest.mark.skipif(sys.platform == "win32", reason="limits on file sizes are POSIX")
def test_a_full_disk_stops_the_run_and_loses_nothing(store: Store) -> None:
    large = stage("write_large", size=3000, cost=9.0)
    rest = [stage("write_large", size=2001 + n) for n in range(3)]
    good = stage("add", n=1)
    inline([good], store).check()

    def go() -> list[object]:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, resource.RLIM_INFINITY))
        summary = inline([large, *rest], store)
        return [summary.failed[0].error, summary.failed[0].message, len(summary.skipped)]

    error, message, skipped = Fork(go).answer()
    assert (error, skipped) == ("OSError", 3)
    assert os.strerror(errno.EFBIG) in message
    assert store.intact(good)
    assert inline([large, *rest], store).ok


def test_a_full_disk_is_a_storage_error_to_who_asks(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    stages = [stage("add", n=n) for n in range(3)]
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse)
        store.root.mkdir()
        (store.root / "store.json").write_text('{"format": 1}')
        summary = inline(stages, store)
    assert (len(summary.failed), len(summary.skipped)) == (1, 2)
    with pytest.raises(StorageError, match="No space left on device"):
        summary.check()
    assert inline(stages, store).ok


def test_a_place_that_cannot_be_written_is_told_before_anything_runs() -> None:
    with pytest.raises(StorageError, match="Cannot write"):
        inline([stage("add", n=1)], Store("/proc/expunge-store"))


def test_wrong_arguments_are_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="retries"):
        run([], store, retries=-1)
    with pytest.raises(InvalidInput, match="workers"):
        run([], store, workers=0)
    with pytest.raises(InvalidInput, match="stages"):
        run(["x"], store)  # type: ignore[list-item]
    assert run([], store).ok


def test_a_stage_in_use_elsewhere_is_not_touched(store: Store) -> None:
    task = stage("add", n=1)
    with store.lock(task):
        assert execute(task, store).status == "busy"
    assert execute(task, store).status == "done"
    assert execute(task, store).status == "found"
