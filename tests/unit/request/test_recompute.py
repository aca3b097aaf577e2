"""What comes out again from weights and data, and what does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from expunge.request._id_key import require_key
from expunge.request._ledger import Ledger
from expunge.request._recompute import Recomputation, recompute
from expunge.request._requests_subject import load_subject_of
from expunge.request.subject._load import Subject
from tests.unit.request.jobs import FinishedRequest


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
    claims = [each.claim for each in result.findings]
    for words in ("UA is", "intervals (before, after, target)", "6 attacks", "test data", "lost"):
        assert any(words in claim for claim in claims), words
    assert f"the verdict comes out as {finished.evidence.status}" in claims


def test_another_verdict_does_not_come_out(folder: Path, subject: Subject) -> None:
    evidence = json.loads((folder / "0001" / "evidence.json").read_text())
    stated = evidence["verdict"]["status"]
    for status in {"achieved", "not achieved", "inconclusive"} - {stated}:
        change_evidence(folder, verdict=evidence["verdict"] | {"status": status})
        assert problems(folder, subject), status


def test_without_the_weights_from_before_the_rest_is_checked(
    folder: Path, subject: Subject
) -> None:
    evidence = json.loads((folder / "0001" / "evidence.json").read_text())
    change_evidence(folder, hashes=evidence["hashes"] | {"weights_before": "0" * 64})
    result = again(folder, subject)
    assert [each.problem for each in result.findings if each.problem] == []
    assert "the weights from before are gone" in result.left_out[0]
    attacks = evidence["attacks"]
    attacks[0]["after"]["auc"]["value"] += 0.1
    change_evidence(folder, attacks=attacks)
    assert any("comes out as" in problem for problem in problems(folder, subject))
    (folder / "0001" / "weights.safetensors").unlink()
    result = again(folder, subject)
    assert result.findings == ()
    assert "weights.safetensors of this request is gone" in result.left_out[0]


def test_a_discarded_run_is_computed_again_from_its_weights(
    two_requests: Path, tmp_path: Path, subject: Subject
) -> None:
    folder = shutil.copytree(two_requests, tmp_path / "requests")
    entries = unlocked(folder).entries
    tried = [entry for entry in entries if entry.evidence.attempt is not None]
    if not tried:
        pytest.skip("both requests went well on this processor")
    number = tried[0].number
    claims = [each.claim for each in recompute(tried[0], entries[: number - 1], subject).findings]
    assert "the model is as it was before the request" in claims
    assert any(claim.startswith("of the discarded run: 6 attacks") for claim in claims)
    path = tried[0].folder / "evidence.json"
    evidence = json.loads(path.read_text())
    evidence["attempt"]["metrics"][0]["after"]["value"] -= 30.0
    path.write_text(json.dumps(evidence))
    changed = unlocked(folder).entries
    findings = recompute(changed[number - 1], changed[: number - 1], subject).findings
    assert [each.problem[:8] for each in findings if each.problem] == ["UA after"]
