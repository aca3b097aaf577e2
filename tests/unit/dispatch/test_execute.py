"""A stage that is killed at any moment leaves no result, and resumes from its work folder."""

from __future__ import annotations

import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from expunge.dispatch import InlineEngine, run
from expunge.dispatch._execute import execute
from expunge.store import Entry, Stage, Store
from tests.unit.dispatch.forks import Fork
from tests.unit.dispatch.work import stage

pytestmark = [
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
    pytest.mark.skipif(sys.platform == "win32", reason="needs fork"),
]


def contents(entry: Entry) -> dict[str, bytes]:
    """What should not depend on how often a stage was killed."""
    return {name: entry.path(name).read_bytes() for name in (*entry.files, "config.json")}


def undisturbed(one: Stage, root: Path) -> dict[str, bytes]:
    store = Store(root)
    run([one], store, engine=InlineEngine(store)).check()
    return contents(store.open(one))


def attempt(one: Stage, store: Store) -> Any:
    return execute(one, store).status


def test_kills_at_random_moments_change_nothing(store: Store, tmp_path: Path) -> None:
    dice = random.Random(0)
    log = tmp_path / "log"
    one = stage("count", options={"log": str(log), "pause": 0.02})
    kills = 0
    for _ in range(30):
        kills += Fork(lambda: attempt(one, store)).kill_after(dice.uniform(0, 0.02))
        if store.has(one):
            break
        assert not (store.root / "test").exists() or not list((store.root / "test").iterdir())
    assert kills >= 3
    assert attempt(one, store) in ("done", "found")
    steps = log.read_text().split()
    assert set(steps) == {str(n) for n in range(20)}
    assert len(steps) <= 20 + kills, "more than a step was lost at a kill"
    assert contents(store.open(one)) == undisturbed(one, tmp_path / "other")


@pytest.mark.parametrize(
    ("where", "there"),
    [
        ("expunge.store._store.manifest_text", False),
        ("expunge.store._store.sync", False),
        ("expunge.store._store._drop_hidden", True),
        ("pathlib.Path.rename", False),
        ("expunge.store._store.Path.unlink", True),
    ],
)
def test_a_kill_while_a_result_is_stored_leaves_all_or_nothing(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, there: bool
) -> None:
    one = stage("count")
    with monkeypatch.context() as patch:

        def kill(*args: Any, **kwargs: Any) -> None:
            if where != "expunge.store._store.Path.unlink" or str(args[0]).endswith(".lock"):
                os.kill(os.getpid(), signal.SIGKILL)

        patch.setattr(where, kill)
        child = Fork(lambda: attempt(one, store))
        assert child.wait() == -signal.SIGKILL
    assert store.has(one) == there
    assert attempt(one, store) == ("found" if there else "done")
    assert contents(store.open(one)) == undisturbed(one, tmp_path / "other")
    assert store.open(one).environment["tries"] == (1 if there else 2)
