"""The commands that are killed, on the smallest worlds there are, and what they should leave."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import expunge.audit._report
import expunge.dispatch._run
from expunge._errors import ExpungeError
from expunge.bench._protocol_file import load_protocol
from expunge.bench._results import save_results
from expunge.bench._run import collect, run_planned
from expunge.bench._stages import plan
from expunge.cli import main
from expunge.cli._output import ExitCode
from expunge.dispatch import InlineEngine
from expunge.engine import Execution, Procedure
from expunge.engine._artifact import load_artifact
from expunge.evaluation._file_jobs import unlearn_artifact
from expunge.request import forget
from expunge.store import Store
from tests.fuzz.world import World
from tests.unit.bench.tiny_protocol import timeless as timeless_results
from tests.unit.bench.tiny_protocol import write_tiny
from tests.unit.request.jobs import timeless
from tests.unit.request.worlds import Net, fitted, floats

Work = Callable[[], None]


def prepare(folder: Path) -> None:
    """Make what all runs start from, before the first fork."""
    _world(folder)
    _request_world()
    # Matplotlib takes longer than the rest; and workers would not be killed with this process.
    expunge.audit._report.save_figure = lambda *_: None
    expunge.dispatch._run._engine = lambda store, *_, **__: InlineEngine(store)


@cache
def _world(folder: Path) -> World:
    (folder / "world").mkdir()
    world = World(folder / "world")
    assert world.unlearned.is_file()
    return world


@cache
def _request_world() -> tuple[Net, tuple[Any, Any, Any]]:
    data = (floats(48, 1), floats(32, 2), floats(32, 3))
    return fitted(data[0]), data  # type: ignore[return-value]


def make_unlearn(root: Path, place: Path) -> Work:
    """``expunge unlearn``: three epochs of three steps, each with a checkpoint."""
    initial = load_artifact(_world(root.parent).initial)
    procedure = Procedure(epochs=3, batch_size=4)

    def work() -> None:
        out = place / "out.safetensors"
        unlearn_artifact(
            initial,
            "random:0.2",
            out,
            procedure,
            execution=Execution(device="cpu"),
            evaluate_at="never",
            force=out.exists(),
        )

    return work


def make_forget(root: Path, place: Path, ids: Sequence[int] = range(0, 12, 2)) -> Work:
    """``expunge forget``, from Python: two epochs, and a whole bundle but for its figures."""
    model, data = _request_world()

    def work() -> None:
        forget(
            model=model,
            data=data,
            ids=list(ids),
            out=place,
            force=True,
            progress=False,
            lr=3e-3,
            batch_size=4,
            max_epochs=2,
            margin_test=50.0,
            device="cpu",
        )

    return work


def make_bench_run(root: Path, place: Path) -> Work:
    """``expunge bench run``, its stages in this process; records, without tables and figures."""
    planned = plan(load_protocol(tiny_protocol(root)), device="cpu", keep="last")

    def work() -> None:
        store = Store(place / "store")
        run_planned(planned, store, engine=InlineEngine(store)).check()
        save_results(place / "results.jsonl", collect(planned, store))

    return work


def tiny_protocol(folder: Path) -> Path:
    """A protocol of one run."""
    path = folder / "tiny.toml"
    if not path.exists():
        changes = (
            ("evaluate_at = [1, 3]", "evaluate_at = [1]\nattacks = false"),
            ("epochs = 3", "epochs = 1"),
            ('addons = ["none", "FOCUS"]', 'addons = ["none"]'),
            ('baselines = ["FT"]', ""),
        )
        write_tiny(folder, *changes)
    return path


def make_audit_shadows(root: Path, place: Path) -> Work:
    """``expunge audit --shadows``, whose stages run in this process."""
    return lambda: run_command(*audit_words(root.parent, place))


def audit_words(folder: Path, place: Path) -> list[Any]:
    """An audit with four shadow models; where there is a report, it is written again."""
    world, out = _world(folder), place / "audit"
    words = ["audit", world.unlearned, "--initial", world.initial, "--shadows", 4]
    words += ["--store", place / "store"]
    return [*words, *(["--force"] if (out / "report.json").exists() else []), "-o", out]


def run_command(*words: Any) -> None:
    """Run a command line; an error of this package if it exits with 2."""
    sys.argv = ["expunge", *map(str, words)]
    try:
        main()
    except SystemExit as ending:
        if ending.code == ExitCode.ERROR:
            raise ExpungeError(f"{words[0]} failed.") from ending
        if ending.code:
            raise


def outcome(place: Path) -> dict[str, Any]:
    """What a command has left: weights to the byte, evidence and records without times.

    The names of all files, hidden ones too, are among it, so that nothing is left lying about.
    """
    found: dict[str, Any] = {}
    for path in sorted(place.rglob("*.safetensors")):
        name = str(path.relative_to(place))
        if path.name == "scores.safetensors" or "/." in f"/{name}":
            continue
        found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    for path in place.glob("0*/evidence.json"):
        found["evidence"] = timeless(json.loads(path.read_text()))
        found["forgotten"] = (path.parent / "forgotten.json").read_text()
    names = sorted(str(path.relative_to(place)) for path in place.rglob("*") if path.is_file())
    found["files"] = [name for name in names if "store" not in name]
    # Of a store: no examples of killed audits.
    found["data"] = [name for name in names if "/.data/" in name and not name.endswith(".lock")]
    for path in place.glob("audit/*.json"):
        found["report"] = json.loads(path.read_text())
    if (place / "results.jsonl").exists():
        from expunge.bench._results import load_results

        found["results"] = timeless_results(load_results(place / "results.jsonl"))
    assert found, f"{place} holds nothing"
    return found
