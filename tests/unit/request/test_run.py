"""Whole requests: what is written, what survives a kill, what is refused."""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from expunge import _tensors as tensors
from expunge._errors import InvalidInput, StorageError
from expunge._tensors import state_digest
from expunge.data import Examples, load
from expunge.distributed import Group
from expunge.engine._artifact import load_artifact
from expunge.evaluation import Predictions, predict
from expunge.evidence import read_evidence
from expunge.ledger._id_key import require_id_key
from expunge.ledger._ledger import Ledger
from expunge.request import _run as run
from expunge.request import _runner as runner
from expunge.request._job import Job
from expunge.request._job_file import load_job
from expunge.request._run import forget
from expunge.request._verify import verify
from tests.unit.dispatch.forks import Fork
from tests.unit.request.jobs import (
    IDS,
    REFRESH,
    RUINOUS,
    WATCHED,
    FinishedRequest,
    JobMaker,
    carry_out_quietly,
    timeless,
    weights_digest,
)
from tests.unit.request.worlds import fitted, floats


def test_a_request_leaves_a_whole_bundle(finished: FinishedRequest, weights: Path) -> None:
    job, folder = finished.job, finished.folder
    assert folder == job.out / "0001"
    names = {p.relative_to(folder).as_posix() for p in folder.rglob("*")}
    assert {
        "weights.safetensors",
        "evidence.json",
        "evidence.sha256",
        "report.html",
    } <= names
    left = {p.name for p in job.out.iterdir()}
    assert left == {"0001", "head.json"}, "nothing is left lying about"
    evidence = json.loads((folder / "evidence.json").read_text())
    assert evidence == finished.evidence.as_json()
    assert read_evidence(folder / "evidence.json") == finished.evidence
    hashes = evidence["hashes"]
    assert hashes["weights_before"] == weights_digest(weights)
    assert hashes["weights_after"] == weights_digest(folder / "weights.safetensors")
    assert evidence["request"]["records"] == len(IDS)
    assert sum(evidence["exposure"]["after"]) == len(IDS)
    assert evidence["verdict"]["status"] in ("achieved", "not achieved", "inconclusive")
    assert "certified" not in json.dumps(evidence["verdict"])
    attacks = [row for row in evidence["checks"] if row["name"].startswith("auc_")]
    assert len(attacks) == 2 * 6, "as delivered and after benign steps"
    last = evidence["epochs"][-1]
    assert last["epoch"] == 27, "nine tenths of its recipe"
    assert 0.0 < last["keep"] < 1.0
    seconds, cost = finished.evidence.seconds, finished.evidence.preflight.cost
    assert seconds is not None
    assert cost.retraining_epochs == load_artifact(weights).card.recipe["epochs"]
    assert 0 < seconds.processor.steps < seconds.processor.total


def test_no_model_is_passed_over_the_same_data_twice(
    make_request: JobMaker, weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes: list[tuple[str, str]] = []

    def watched(model: nn.Module, data: Any, **options: Any) -> Predictions:
        passes.append((state_digest(model.state_dict()), data.fingerprint()))
        return predict(model, data, **options)

    monkeypatch.setattr("expunge.engine._predict.predict", watched)
    carry_out_quietly(make_request(**WATCHED | {"max_epochs": 2}))
    # The chosen model once more, as it will be used: in the plain memory layout.
    twice = {model for model, data in set(passes) if passes.count((model, data)) > 1}
    assert twice <= {passes[-5][0]}, "the last four are after benign steps"
    given = state_digest(load_artifact(weights).model.state_dict())
    assert sum(model == given for model, _ in passes) == 4, "each part once, in the preflight"


def test_the_weights_in_the_bundle_are_those_the_numbers_are_of(
    finished: FinishedRequest, weights: Path
) -> None:
    splits = load("digits", limit=120)
    state, _ = tensors.load(finished.folder / "weights.safetensors")
    model = load_artifact(weights).model
    model.load_state_dict(state)
    chosen = splits.train.subset(IDS)
    with torch.no_grad():
        right = (model.eval()(chosen.images).argmax(1) == chosen.labels).double().mean()
    after = finished.evidence.metric("ua").after
    assert after.value == pytest.approx(100 * float(right), abs=1e-4)


def test_dry_run_changes_nothing(make_request: JobMaker) -> None:
    job = make_request()
    outcome = carry_out_quietly(job, dry_run=True)
    assert outcome.evidence is None
    assert outcome.preflight.fits
    assert not job.out.exists()


def test_a_refused_request_leaves_no_folder(
    make_request: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for job in (make_request([500]), make_request([500], out=make_request.out / "deep")):
        with pytest.raises(InvalidInput, match="Ids should be"):
            carry_out_quietly(job)
    assert not make_request.out.exists()

    def refused(*_: Any, **__: Any) -> None:
        raise InvalidInput("This method cannot be used here.")

    monkeypatch.setattr(runner, "forget_records", refused)
    with pytest.raises(InvalidInput, match="cannot be used here"):
        carry_out_quietly(make_request())
    assert not make_request.out.exists()
    make_request.out.mkdir()
    with pytest.raises(InvalidInput):
        carry_out_quietly(make_request())
    assert list(make_request.out.iterdir()) == [], "a folder that was there stays"


@pytest.mark.parametrize(
    ("classes", "left", "method"),
    [({0}, 0, "MATCH"), ({0}, 1, "SRL"), ({0, 1}, 0, "refresh"), ({0, 1, 2, 3}, 1, "refresh")],
    ids=["a class", "a class but one record", "two classes", "all but one record"],
)
def test_whole_classes_can_be_forgotten(
    classes: set[int], left: int, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("expunge.request._forgetting.MIN_STEPS", 8)  # well or badly
    train = floats(240, 1)
    ids = [index for index, label in enumerate(train.labels.tolist()) if label in classes][left:]
    (tmp_path / "out" / ".0001.new").mkdir(parents=True)  # of a run that was killed
    (tmp_path / "out" / ".0001.new" / ".report.html.x.tmp").write_text("half")
    outcome = forget(
        model=fitted(train),
        data=(train, floats(60, 2), floats(80, 3)),
        ids=ids,
        out=tmp_path / "out",
        method=method,
        max_epochs=1,
        force=True,
        progress=False,
    )
    json.dumps(outcome.preflight.as_dict(), allow_nan=False)
    left = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert left == ["0001", "head.json"]
    assert all(verification.ok for verification in verify(tmp_path / "out", quick=True))


def test_a_model_that_collapses_ends_with_the_weights_it_had(
    make_request: JobMaker, weights: Path
) -> None:
    job = make_request(method="GA", lr=1e4, max_epochs=2, margin_test=10.0)
    outcome = carry_out_quietly(job)
    assert not outcome.achieved
    assert outcome.evidence is not None
    assert outcome.evidence.verdict.status == "not achieved"
    assert "as it was before" in outcome.evidence.verdict.headline
    before, after = (
        tensors.load(path)[0] for path in (weights, job.out / "0001" / "weights.safetensors")
    )
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_what_came_nearest_is_kept_apart_from_the_weights(
    make_request: JobMaker, weights: Path
) -> None:
    job = make_request(**RUINOUS)
    first = FinishedRequest.of(job, carry_out_quietly(job))
    assert first.outcome.status == "not achieved"
    assert first.evidence.discarded
    before, after, tried = (
        tensors.load(path)[0]
        for path in (
            weights,
            first.folder / "weights.safetensors",
            first.folder / "discarded.safetensors",
        )
    )
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert not all(torch.equal(before[name], tried[name]) for name in before)
    assert first.evidence.hashes.discarded == weights_digest(first.folder / "discarded.safetensors")
    again = carry_out_quietly(make_request(**RUINOUS))
    assert again.evidence is not None
    assert again.evidence.request.records == len(IDS), "not forgotten, so asked for again"


def test_a_request_is_repeated_from_its_bundle(
    make_request: JobMaker, weights: Path, tmp_path: Path
) -> None:
    job = make_request()
    first = FinishedRequest.of(job, carry_out_quietly(job))
    assert first.evidence.commands[0] == (
        f"expunge forget --job {first.folder}/job.toml --ids IDS --out again"
    )
    changes = {"ids": job.ids, "out": tmp_path / "again"}
    again = load_job(first.folder / "job.toml").model_copy(update=changes)
    second = FinishedRequest.of(again, carry_out_quietly(again))
    assert second.evidence.metrics == first.evidence.metrics
    files = sorted(path.name for path in first.folder.glob("*.safetensors"))
    assert files == sorted(path.name for path in second.folder.glob("*.safetensors"))
    for name in files:
        assert (first.folder / name).read_bytes() == (second.folder / name).read_bytes()
    moved = {weights_digest(first.folder / name) for name in files} - {weights_digest(weights)}
    assert moved, "chosen or discarded, there are other weights than before"


def test_no_more_epochs_are_run_than_were_allowed(make_request: JobMaker) -> None:
    """Five records would otherwise take MATCH 320 epochs."""
    outcome = carry_out_quietly(make_request(IDS[:5], method="MATCH", max_epochs=2))
    assert outcome.evidence is not None
    assert outcome.evidence.epochs[-1].epoch == 2
    assert outcome.preflight is not None
    assert "The request: 2 epochs" in outcome.preflight.findings.cost.note


def test_duplicates_are_also_forgotten(tmp_path: Path) -> None:
    train = floats(240, 1)
    data = Examples(
        torch.cat((train.inputs, train.inputs[:4])),
        torch.cat((train.labels, train.labels[:4])),
        train.classes,
    )
    model = fitted(data)
    for include in (False, True):
        out = tmp_path / str(include)
        outcome = forget(
            model=model,
            data=(data, floats(60, 2), floats(80, 3)),
            ids=range(4),
            out=out,
            include_duplicates=include,
            method="SRL",
            max_epochs=1,
            force=True,
            progress=False,
        )
        assert outcome.evidence is not None
        request = outcome.evidence.request
        assert (request.records, request.copies) == ((8, 4) if include else (4, 0))
        key = require_id_key()
        (entry,) = Ledger.read(out).unlocked(key, len(data)).entries
        assert {*entry.forgotten_indices} - {*range(4)} == (
            {*range(240, 244)} if include else set()
        )
        assert entry.forgotten.asked == sorted(map(key.hash_record, range(4)))
        assert all(verification.ok for verification in verify(out, quick=True))


def killed_at(rename: int, job: Job, *, after: bool) -> str:
    """Carry out ``job``, but die without a trace at its n-th rename, right before or after it.

    Nothing on the disk counts before it is renamed, so that these are all the moments there are.
    """
    count = 0

    def deadly(original: Any) -> Any:
        def replacement(self: Path, target: Path) -> Path:
            nonlocal count
            count += 1
            if count == rename and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            moved: Path = original(self, target)
            if count == rename:
                os.kill(os.getpid(), signal.SIGKILL)
            return moved

        return replacement

    with pytest.MonkeyPatch.context() as patch:
        for name in ("rename", "replace"):
            patch.setattr(Path, name, deadly(getattr(Path, name)))
        return str(carry_out_quietly(job).folder)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.skipif(sys.platform == "win32", reason="needs fork")
@pytest.mark.parametrize(
    "moments",
    [
        [(1, True), (4, False), (9, True)],
        pytest.param(
            [(1, False), (1, True), (2, False), (3, True), (4, False), (9, True), (2, True)],
            marks=pytest.mark.thorough,
        ),
    ],
    ids=len,
)
def test_killed_at_any_moment_it_resumes_to_the_same_end(
    make_request: JobMaker,
    tmp_path: Path,
    moments: list[tuple[int, bool]],
) -> None:
    job = make_request()
    folder = job.out / "0001"
    whole = carry_out_quietly(make_request(out=tmp_path / "whole")).evidence
    assert whole is not None
    for rename, after in moments:
        child = Fork(lambda n=rename, a=after: killed_at(n, job, after=a))
        assert child.wait() == -signal.SIGKILL
        assert not folder.exists() or (folder / "evidence.sha256").is_file()
    assert not folder.exists()
    assert Fork(lambda: str(carry_out_quietly(job).folder)).answer() == str(folder)
    evidence = json.loads((folder / "evidence.json").read_text())
    assert timeless(evidence) == timeless(whole.as_json())


def test_several_processes_are_refused(
    make_request: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "as_group", lambda _: Group(rank=1, size=2))
    with pytest.raises(InvalidInput, match=r"one process.*got 2 processes"):
        carry_out_quietly(make_request())


def test_a_full_disk_loses_nothing(make_request: JobMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_request(max_epochs=1)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    def refused(*_: Any, **__: Any) -> None:
        raise StorageError("Could not write it: No space left on device.")

    for name, fault in (("sync", full), ("write_seal", refused)):
        with monkeypatch.context() as patch:
            patch.setattr(f"expunge.request._bundle.{name}", fault)
            with pytest.raises(StorageError, match=r"No space left.*the same command resumes it"):
                carry_out_quietly(job)
        assert [p.name for p in job.out.glob(".*.new")] == []
    assert not (job.out / "0001").exists()
    assert (job.out / ".work" / "run.checkpoint").is_file()
    assert carry_out_quietly(job).folder == job.out / "0001"


def test_an_unfinished_request_is_in_the_way_of_another(
    make_request: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "forget_records", dies)
        with pytest.raises(KeyboardInterrupt):
            carry_out_quietly(make_request())
    other = make_request([1, 3, 5], max_epochs=1)
    with pytest.raises(InvalidInput, match=r"is not finished.*--discard"):
        carry_out_quietly(other)
    assert carry_out_quietly(other, discard=True).folder == other.out / "0001"


def test_the_python_entrance_takes_a_model_and_data_in_memory(
    weights: Path, tmp_path: Path
) -> None:
    splits = load("digits", limit=120)
    data = (splits.train, splits.val, splits.test)
    outcome = forget(
        model=load_artifact(weights).model,
        data=data,
        ids=IDS,
        out=tmp_path / "out",
        lr=3e-3,
        batch_size=16,
        method="SRL",
        max_epochs=1,
        progress=False,
    )
    assert outcome.folder is not None
    assert outcome.evidence is not None
    assert outcome.evidence.request.source == "given in Python"
    assert "with a model or data in memory" in verify(tmp_path / "out")[0].not_verified
    (verification,) = verify(tmp_path / "out", model=load_artifact(weights).model, data=data)
    assert verification.verified
    assert "holds: everything that weights and data tell is as stated" in verification.lines
    other = load_artifact(weights).model
    for parameter in other.parameters():
        nn.init.zeros_(parameter)
    (verification,) = verify(tmp_path / "out", model=other, data=data)
    assert "the weights from before the first request are not here" in verification.not_verified
    assert verify(tmp_path / "out", model=other, data=data, weights=weights)[0].verified
    with pytest.raises(InvalidInput, match="Data in memory go with a `model` in memory"):
        forget(weights=weights, data=(splits.train, splits.test), ids=[1], out=tmp_path / "other")
    with pytest.raises(InvalidInput, match="Give a trained `model`"):
        forget(data="digits", ids=[1], out=tmp_path / "other")


def test_an_attempt_is_judged_again_by_other_margins_without_the_steps(
    make_request: JobMaker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = FinishedRequest.of(job := make_request(**RUINOUS), carry_out_quietly(job))
    assert first.evidence.discarded
    with pytest.raises(InvalidInput, match=r"in margins that only judge\. \(different: nothing\)"):
        carry_out_quietly(job, judge_discarded=True)
    other = make_request([1, 2], **RUINOUS | {"seed": 3, "margin_test": 100.0})
    with pytest.raises(InvalidInput, match=r"\(different: seed, ids\)"):
        carry_out_quietly(other, judge_discarded=True)
    with monkeypatch.context() as patch:
        patch.setattr(runner, "forget_records", lambda *_, **__: pytest.fail("a step was run"))
        wider = make_request(**RUINOUS | {"margin_test": 100.0})
        again = FinishedRequest.of(wider, carry_out_quietly(wider, judge_discarded=True))
    assert again.evidence.unlearned
    assert again.evidence.hashes.weights_after == first.evidence.hashes.discarded
    assert (again.evidence.request.attempt, again.evidence.request.judged_before) == (2, 1)
    assert again.evidence.epochs == first.evidence.epochs
    said = " ".join(again.evidence.verdict.reasons)
    assert "Request 1 judged and discarded the same model, bit for bit." in said
    assert all(verification.verified for verification in verify(job.out))
    with pytest.raises(InvalidInput, match="discarded, and there is none"):
        carry_out_quietly(make_request([1, 2]), judge_discarded=True)


def test_a_margin_that_also_steers_the_run_is_not_enough_to_judge_again(
    make_request: JobMaker,
) -> None:
    hopeless = {"lr": 1e-4, "margin_auc": 0.51, "margin_records": 0.1}
    done = carry_out_quietly(make_request(**hopeless))
    assert done.evidence is not None
    assert done.evidence.discarded
    with pytest.raises(InvalidInput, match="different: margin_test"):
        carry_out_quietly(make_request(**hopeless | {"margin_test": 90.0}), judge_discarded=True)


def test_the_evidence_states_when_an_answer_is_due_and_what_is_open(make_request: JobMaker) -> None:
    bot = {"name": "support-bot", "kind": "fine-tuned"}
    stated = {"received": date(2026, 1, 31), "legal_basis": "GDPR, Art. 17(1)(b)"}
    job = make_request(**REFRESH | stated | {"derived": [bot]})
    evidence = FinishedRequest.of(job, carry_out_quietly(job)).evidence
    request = evidence.request
    assert (request.received, request.due) == (date(2026, 1, 31), date(2026, 2, 28))
    late = (date(2026, 2, 28) - date.fromisoformat(request.when[:10])).days
    assert request.days_left == late
    assert request.legal_basis == "GDPR, Art. 17(1)(b)"
    assert [each.status for each in evidence.derived] == ["open"]
    assert load_job(job.out / "0001" / "job.toml").derived == evidence.derived
    assert all(verification.verified for verification in verify(job.out))
    ledger = Ledger.read(job.out)
    assert [(number, each.name) for number, each in ledger.open_models()] == [(1, "support-bot")]
    closed = make_request([1, 3], **REFRESH | {"derived": [bot | {"status": "closed"}]})
    carry_out_quietly(closed)
    assert Ledger.read(job.out).open_models() == []
