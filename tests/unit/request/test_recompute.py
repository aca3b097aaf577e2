"""What comes out again from weights and data, and what does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from expunge.request._id_key import require_key
from expunge.request._ledger import Ledger
from expunge.request._recompute import NOT_RECOMPUTED, Finding, Recomputation, recompute
from expunge.request._requests_subject import load_subject_of
from expunge.request.evidence import Evidence
from expunge.request.subject._load import Subject
from tests.unit.request.jobs import IDS, WATCHED, FinishedRequest, JobMaker, carry_out_quietly


@pytest.fixture
def folder(finished: FinishedRequest, tmp_path: Path) -> Path:
    """The folder of a request, to change at will."""
    return shutil.copytree(finished.folder.parent, tmp_path / "requests")


@pytest.fixture(scope="module")
def subject(finished: FinishedRequest) -> Subject:
    return load_subject_of(Ledger.read(finished.folder.parent))


def unlocked(folder: Path) -> Ledger:
    return Ledger.read(folder).unlocked(require_key(), 120)


def again(folder: Path, subject: Subject) -> Recomputation:
    return recompute(unlocked(folder).entries[0], (), subject)


def problems(folder: Path, subject: Subject) -> list[str]:
    return [each.problem for each in again(folder, subject).findings if each.problem]


def change_evidence(folder: Path, **values: Any) -> None:
    path = folder / "0001" / "evidence.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def test_everything_comes_out_again(finished: FinishedRequest, subject: Subject) -> None:
    result = again(finished.folder.parent, subject)
    assert [each.problem for each in result.findings if each.problem] == []
    assert result.left_out == ()
    claims = {each.claim.partition(",")[0] for each in result.findings}
    assert claims >= {"verdict", "margins", "checks", "metrics", "classes", "hashes", "request"}


def test_every_field_is_computed_again_or_listed(finished: FinishedRequest) -> None:
    computed = {"schema_version", "kind", "verdict", "request", "hashes", "margins", "checks"}
    computed |= {"metrics", "scores", "classes", "exposure", "earlier", "limits"}
    computed |= {"texts", "definitions"}
    listed = {name for name in NOT_RECOMPUTED if "." not in name}
    assert computed | listed == set(Evidence.model_fields)
    assert not computed & listed


@pytest.mark.parametrize(
    "path",
    [
        "verdict.status",
        "verdict.headline",
        "verdict.reasons.0",
        "request.records",
        "hashes.weights_after",
        "margins.auc",
        "checks.0.high",
        "checks.0.result",
        "metrics.0.after.value",
        "metrics.0.relearned.low",
        "classes.0.forgotten",
        "scores.after.forget.0",
        "limits.0",
    ],
)
def test_a_field_that_was_changed_does_not_come_out(
    folder: Path, subject: Subject, path: str
) -> None:
    file = folder / "0001" / "evidence.json"
    evidence = json.loads(file.read_text())
    *way, last = (int(part) if part.isdigit() else part for part in path.split("."))
    place = evidence
    for part in way:
        place = place[part]
    value = place[last]
    forged = {"verdict.status": "achieved", "checks.0.result": "open"}.get(path)
    if forged == value:
        forged = {"verdict.status": "not achieved", "checks.0.result": "inside"}[path]
    place[last] = forged or (f"not {value}" if isinstance(value, str) else value + 7)
    file.write_text(json.dumps(evidence))
    result = again(folder, subject)
    found = [each.problem for each in result.findings if each.problem]
    # Another verdict is that of another model, so that everything differs, or the model is missing.
    expected = (
        result.left_out or found if path == "verdict.status" else any(path in p for p in found)
    )
    assert expected


def test_without_the_weights_nothing_can_be_computed(folder: Path, subject: Subject) -> None:
    evidence = json.loads((folder / "0001" / "evidence.json").read_text())
    (folder / "0001" / "weights.safetensors").rename(folder / "kept")
    result = again(folder, subject)
    assert result.findings == ()
    assert "weights.safetensors of this request is gone" in result.left_out[0]
    (folder / "kept").rename(folder / "0001" / "weights.safetensors")
    change_evidence(folder, hashes=evidence["hashes"] | {"weights_before": "0" * 64})
    result = again(folder, subject)
    assert result.findings == ()
    assert "the weights from before are gone" in result.left_out[0]


@pytest.mark.usefixtures("no_figures")
def test_a_discarded_model_is_judged_again_from_its_weights(
    make_request: JobMaker, subject: Subject
) -> None:
    carry_out_quietly(make_request(margin_test=1e-3))
    assert Ledger.read(make_request.out).entries[0].evidence.discarded
    assert problems(make_request.out, subject) == []
    (make_request.out / "0001" / "attempt.safetensors").unlink()
    assert "attempt.safetensors" in again(make_request.out, subject).left_out[0]


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize(
    "settings", [{}, {"exact": True}, WATCHED], ids=["refresh", "exact", "SRL"]
)
def test_a_replay_gives_the_same_weights_and_a_planted_record_others(
    make_request: JobMaker, subject: Subject, settings: dict[str, Any]
) -> None:
    carry_out_quietly(make_request(**settings))
    entry = unlocked(make_request.out).entries[0]
    found = recompute(entry, (), subject, replay=True).findings[-1]
    assert found == Finding("weights, trained again")
    planted = carry_out_quietly(make_request(IDS[1:], **settings, out=make_request.out / "other"))
    assert planted.folder is not None
    for name in ("weights.safetensors", "attempt.safetensors"):
        if (entry.folder / name).exists() and (planted.folder / name).exists():
            shutil.copy(planted.folder / name, entry.folder / name)
    found = recompute(entry, (), subject, replay=True).findings[-1]
    assert "gives other weights" in found.problem
