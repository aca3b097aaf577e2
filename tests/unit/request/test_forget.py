"""Whole requests: what is written, what survives a kill, what is refused."""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import expunge.request._run as forgetting
from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput, StorageError
from expunge._files import write_text
from expunge.data import load
from expunge.distributed import Group
from expunge.engine import Recipe
from expunge.engine._artifact import load_artifact
from expunge.evaluation._model_files import train_initial
from expunge.request._job import Job, make_job
from expunge.request._job_file import load_job
from expunge.request._ledger import Ledger, LedgerEntry, digest_of, exclusive_access
from expunge.request._run import Outcome, carry_out, forget
from expunge.request._verify import subject_of_requests, verify
from expunge.request.evidence import read_evidence
from expunge.request.subject._dataset import Examples
from tests.unit.dispatch.forks import Fork
from tests.unit.request.worlds import fitted, floats

IDS = list(range(0, 60, 2))


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small net that knows 120 digits by heart."""
    path = tmp_path_factory.mktemp("model") / "initial.safetensors"
    recipe = Recipe(epochs=30, batch_size=32, lr=0.05, schedule="one-cycle")
    train_initial("digits", path, width=0.25, recipe=recipe, limit=120, device="cpu")
    return path


Request = Callable[..., Job]


@pytest.fixture
def request_of(weights: Path, tmp_path: Path) -> Request:
    """A job on that net."""

    def make(ids: list[int] | None = None, **values: Any) -> Job:
        path = tmp_path / f"ids-{len(list(tmp_path.glob('ids-*')))}.json"
        path.write_text(json.dumps(IDS if ids is None else ids))
        settings = {"lr": 3e-3, "batch_size": 16, "max_epochs": 6, "floor": 10.0, "device": "cpu"}
        return make_job(
            **({"weights": weights, "ids": path, "out": tmp_path / "out"} | settings | values)
        )

    return make


def go(job: Job, **options: Any) -> Outcome:
    return carry_out(job, progress=False, **options)


def timeless(evidence: dict[str, Any]) -> dict[str, Any]:
    """The evidence without what the clock decides."""
    kept = json.loads(json.dumps(evidence))
    for name in ("seconds", "environment", "cost", "files"):
        kept.pop(name)
    kept["request"].pop("when")
    kept["preflight"].pop("cost")
    for row in kept["epochs"]:
        row.pop("seconds", None)
        row.pop("processor_seconds", None)
    for name in ("config", "hashes"):
        kept[name].pop("out", None)
        kept[name].pop("config", None)
    kept["commands"] = []
    return kept  # type: ignore[no-any-return]


def test_a_request_leaves_a_whole_bundle(request_of: Request, weights: Path) -> None:
    job = request_of()
    outcome = go(job)
    assert outcome.folder == job.out / "0001"
    names = {p.relative_to(outcome.folder).as_posix() for p in outcome.folder.rglob("*")}
    assert {
        "weights.safetensors",
        "evidence.json",
        "evidence.sha256",
        "examples.csv",
        "report.html",
        "preflight.json",
        "figures/epochs.png",
        "figures/scores.pdf",
    } <= names
    assert {p.name for p in job.out.iterdir()} == {"0001"}, "nothing is left lying about"
    evidence = json.loads((outcome.folder / "evidence.json").read_text())
    assert evidence == outcome.evidence.as_json()
    assert read_evidence(outcome.folder / "evidence.json") == outcome.evidence
    hashes = evidence["hashes"]
    assert hashes["weights_before"] == digest_of(weights)
    assert hashes["weights_after"] == digest_of(outcome.folder / "weights.safetensors")
    assert evidence["request"]["records"] == len(IDS) == len(evidence["examples"])
    assert evidence["verdict"]["status"] in ("achieved", "not achieved")
    assert "certified" not in json.dumps(evidence["verdict"])
    assert evidence["target"]["low"] <= evidence["target"]["value"] <= evidence["target"]["high"]
    assert len(evidence["attacks"]) == 6
    assert len(evidence["steps"]["feasible"]) == sum(row["steps"] for row in evidence["epochs"])
    lines = (outcome.folder / "examples.csv").read_text().splitlines()
    assert len(lines) == 1 + len(IDS)


def test_the_weights_in_the_bundle_are_those_the_numbers_are_of(request_of: Request) -> None:
    outcome = go(request_of())
    assert outcome.evidence is not None
    assert outcome.folder is not None
    splits = load("digits", limit=120)
    state, _ = tensors.load(outcome.folder / "weights.safetensors")
    model = load_artifact(request_of().weights).model
    model.load_state_dict(state)
    chosen = splits.train.subset(IDS)
    with torch.no_grad():
        right = (model.eval()(chosen.images).argmax(1) == chosen.labels).double().mean()
    after = outcome.evidence.metric("ua").after
    assert after.value == pytest.approx(100 * float(right), abs=1e-4)


def test_dry_run_changes_nothing(request_of: Request) -> None:
    job = request_of()
    outcome = go(job, dry_run=True)
    assert outcome.evidence is None
    assert outcome.preflight.fits
    assert list(job.out.iterdir()) == []


def test_a_model_that_collapses_ends_with_the_weights_it_had(
    request_of: Request, weights: Path
) -> None:
    job = request_of(method="GA", addon="none", lr=1e4, max_epochs=2)
    outcome = go(job)
    assert not outcome.achieved
    assert outcome.evidence is not None
    assert outcome.evidence.verdict.status == "not achieved"
    assert "as it was before" in outcome.evidence.verdict.headline
    before, after = (
        tensors.load(path)[0] for path in (weights, job.out / "0001" / "weights.safetensors")
    )
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_what_came_nearest_is_kept_apart_from_the_weights(
    request_of: Request, weights: Path
) -> None:
    job = request_of(lr=1e-5, max_epochs=2)
    outcome = go(job)
    assert outcome.evidence is not None
    assert outcome.folder is not None
    assert not outcome.achieved
    assert outcome.evidence.stopped.epoch == 0
    assert outcome.evidence.attempt is not None
    assert outcome.evidence.attempt.stopped.epoch > 0
    before, after, tried = (
        tensors.load(path)[0]
        for path in (
            weights,
            outcome.folder / "weights.safetensors",
            outcome.folder / "attempt.safetensors",
        )
    )
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not all(torch.equal(before[name], tried[name]) for name in before)
    for metric in outcome.evidence.metrics:
        assert metric.before == metric.after
    again = go(request_of(lr=1e-5, max_epochs=3))
    assert again.evidence is not None
    assert again.evidence.request.records == len(IDS), "not forgotten, so asked for again"


def test_a_request_is_repeated_from_its_bundle(request_of: Request, tmp_path: Path) -> None:
    first = go(request_of())
    assert first.folder is not None
    assert first.evidence is not None
    assert first.evidence.commands[0] == (
        f"expunge forget --job {first.folder}/job.toml --out again"
    )
    again = load_job(first.folder / "job.toml").model_copy(update={"out": tmp_path / "again"})
    second = go(again)
    assert second.evidence is not None
    assert second.evidence.metrics == first.evidence.metrics
    name = "weights.safetensors"
    assert second.folder is not None
    assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()


def test_copies_are_forgotten_along(tmp_path: Path) -> None:
    train = floats(240, 1)
    near = train.inputs[:4] + 1e-4
    data = Examples(
        torch.cat((train.inputs, train.inputs[:4], near)),
        torch.cat((train.labels, train.labels[:4], train.labels[:4])),
        train.classes,
    )
    model = fitted(data)
    found = {}
    for kind in ("none", "exact", "near"):
        outcome = forget(
            model=model,
            data=(data, floats(60, 2), floats(80, 3)),
            ids=range(4),
            out=tmp_path / kind,
            include_duplicates=kind,
            max_epochs=1,
            force=True,
            progress=False,
        )
        assert outcome.evidence is not None
        assert outcome.folder is not None
        request = outcome.evidence.request
        found[kind] = {(copy.record, copy.kind) for copy in request.copies}
        assert request.records == 4 + len(found[kind])
        kept = json.loads((outcome.folder / "forgotten.json").read_text())
        assert kept["indices"] == sorted({*range(4), *(index for index, _ in found[kind])})
        assert kept["asked"] == [0, 1, 2, 3]
        assert all(checked.ok for checked in verify(tmp_path / kind))
    assert found["none"] == set()
    assert found["exact"] == {(index, "exact") for index in range(240, 244)}
    assert found["exact"] < found["near"]
    assert {(index, "near") for index in range(244, 248)} <= found["near"]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
def test_killed_at_any_moment_it_goes_on_to_the_same_end(
    request_of: Request, tmp_path: Path
) -> None:
    undisturbed = request_of(out=tmp_path / "whole")
    folder = Path(Fork(lambda: str(go(undisturbed).folder)).answer())  # in a child, as the others
    whole = json.loads((folder / "evidence.json").read_text())
    job = request_of()
    dice = random.Random(3)

    def attempt() -> str:
        return str(go(job).folder)

    kills = 0
    for _ in range(12):
        if (job.out / "0001").exists():
            break
        kills += Fork(attempt).kill_after(dice.uniform(0.1, 0.8))
        assert not list(job.out.glob("0001/evidence.json")) or (job.out / "0001").is_dir()
    assert kills >= 2
    if not (job.out / "0001").exists():
        assert Fork(attempt).answer() == str(job.out / "0001")
    evidence = json.loads((job.out / "0001" / "evidence.json").read_text())
    ours, theirs = timeless(evidence), timeless(whole)
    ours["config"].pop("ids")
    theirs["config"].pop("ids")
    ours["request"].pop("source")
    theirs["request"].pop("source")
    assert ours == theirs


def test_two_requests_at_once_on_one_folder_are_refused(request_of: Request) -> None:
    job = request_of()
    with exclusive_access(job.out), pytest.raises(StorageError, match="Another request is at work"):
        go(job)
    assert [p for p in job.out.iterdir() if p.name != ".lock"] == []


def test_several_processes_are_refused(
    request_of: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forgetting, "as_group", lambda _: Group(rank=1, size=2))
    with pytest.raises(InvalidInput, match=r"one process.*got 2 processes"):
        go(request_of())


def test_a_full_disk_loses_nothing(request_of: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    job = request_of()

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    def refused(*_: Any, **__: Any) -> None:
        raise StorageError("Could not write it: No space left on device.")

    for name, fault in (("sync", full), ("write_examples", refused)):
        with monkeypatch.context() as patch:
            patch.setattr(f"expunge.request.evidence._bundle.{name}", fault)
            with pytest.raises(StorageError, match=r"No space left.*the same command resumes it"):
                go(job)
        assert [p.name for p in job.out.glob(".*.new")] == []
    assert not (job.out / "0001").exists()
    assert (job.out / ".work" / "run.checkpoint").is_file() or go(job).folder
    assert go(job).folder == job.out / "0001"


def test_an_unfinished_request_is_in_the_way_of_another(
    request_of: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(forgetting, "calibrate", dies)
        with pytest.raises(KeyboardInterrupt):
            go(request_of())
    other = request_of([1, 3, 5])
    with pytest.raises(InvalidInput, match=r"is not finished.*--discard"):
        go(other)
    assert go(other, discard=True).folder == other.out / "0001"


def test_a_sequence_goes_on_from_the_last_weights_and_keeps_what_is_gone_out_of_retain(
    request_of: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    original = forgetting.calibrate

    def spy(model: Any, **arguments: Any) -> Any:
        seen.append({"model": model, "retain": len(arguments["retain"])})
        return original(model, **arguments)

    monkeypatch.setattr(forgetting, "calibrate", spy)
    monkeypatch.setattr(LedgerEntry, "achieved", property(lambda entry: True))
    first = go(request_of(list(range(10))))
    second = go(request_of(list(range(5, 20))))
    third = go(request_of([100, 101]))
    assert [s["retain"] for s in seen] == [110, 100, 98]
    assert first.model is not None
    assert second.folder is not None
    for p, q in zip(seen[1]["model"].parameters(), first.model.parameters(), strict=True):
        assert torch.equal(p, q)
    assert second.evidence is not None
    assert second.evidence.request.records == 10, "five of them were asked for before"
    assert third.evidence is not None
    assert [row.number for row in third.evidence.earlier] == [1, 2]
    assert third.evidence.request.previous == digest_of(second.folder / "evidence.json")
    ledger = Ledger.read(second.folder.parent)
    assert {n: len(i) for n, i in ledger.forgotten.items()} == {1: 10, 2: 10, 3: 2}
    assert ledger.broken_seals() == []
    with pytest.raises(InvalidInput, match="nothing new to forget"):
        go(request_of([3, 7]))


def test_changed_data_and_other_weights_are_refused(
    request_of: Request, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(request_of([1, 2, 3]))
    evidence = tmp_path / "out" / "0001" / "evidence.json"
    kept = json.loads(evidence.read_text())
    for name, words in (("data", "The data have changed since request 1"),):
        wrong = kept | {"hashes": kept["hashes"] | {name: "0" * 64}}
        evidence.write_text(json.dumps(wrong))
        with pytest.raises(DataError, match=words):
            go(request_of([4]))
    evidence.write_text(json.dumps(kept | {"hashes": kept["hashes"] | {"weights_before": "1"}}))
    with pytest.raises(InvalidInput, match="started with other weights"):
        go(request_of([4]))


def test_verify_holds_and_notices_every_change(request_of: Request) -> None:
    job = request_of([1, 2, 3])
    go(job)
    go(request_of([7, 8]))
    subject, note = subject_of_requests(job.out)
    assert note == ""
    assert all(checked.ok for checked in verify(job.out, subject))
    folder = job.out / "0001"
    for name, words in (
        ("examples.csv", "examples.csv was changed"),
        ("weights.safetensors", "weights.safetensors was changed"),
        ("report.html", "report.html was changed"),
        ("evidence.json", "is not the one that request 2 was made after"),
    ):
        path = folder / name
        content = path.read_bytes()
        path.write_bytes(content[:-2] + b" " + content[-2:])
        problems = [p for checked in verify(job.out, subject) for p in checked.problems]
        assert any(words in problem for problem in problems), name
        path.write_bytes(content)
    (folder / "examples.csv").unlink()
    assert "examples.csv is missing." in verify(job.out)[0].problems


def test_verify_notices_numbers_that_do_not_come_out(request_of: Request) -> None:
    job = request_of([1, 2, 3])
    go(job)
    path = job.out / "0001" / "evidence.json"
    evidence = json.loads(path.read_text())
    next(m for m in evidence["metrics"] if m["name"] == "ta")["after"]["value"] = 12.0
    write_text(path, json.dumps(evidence))
    subject, _ = subject_of_requests(job.out)
    problems = verify(job.out, subject)[0].problems
    assert any(problem.startswith("TA comes out as") for problem in problems)


def test_the_python_entrance_takes_a_model_and_data_in_memory(
    weights: Path, tmp_path: Path
) -> None:
    splits = load("digits", limit=120)
    outcome = forget(
        model=load_artifact(weights).model,
        data=(splits.train, splits.val, splits.test),
        ids=IDS,
        out=tmp_path / "out",
        lr=3e-3,
        batch_size=16,
        max_epochs=3,
        floor=10.0,
        progress=False,
    )
    assert outcome.folder is not None
    assert outcome.evidence is not None
    assert outcome.evidence.request.source == "given in Python"
    subject, note = subject_of_requests(tmp_path / "out")
    assert subject is None
    assert "in memory" in note
    checked = verify(
        tmp_path / "out",
        model=load_artifact(weights).model,
        data=(splits.train, splits.val, splits.test),
    )
    assert checked[0].ok
    assert any(line.startswith("holds: UA is") for line in checked[0].lines)
    with pytest.raises(InvalidInput, match="Data in memory go with a `model` in memory"):
        forget(weights=weights, data=(splits.train, splits.test), ids=[1], out=tmp_path / "other")
    with pytest.raises(InvalidInput, match="Give a trained `model`"):
        forget(data="digits", ids=[1], out=tmp_path / "other")
