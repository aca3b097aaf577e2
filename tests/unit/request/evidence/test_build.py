"""Evidence of made-up predictions: what is achieved, what is not, and what cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from expunge.engine import History
from expunge.request._examination import Examination
from expunge.request._id_key import IdKey
from expunge.request._ids import RequestedRecords
from expunge.request._ledger import Ledger
from expunge.request.calibrate._comparison import compare
from expunge.request.calibrate._run import CalibrationResult
from expunge.request.calibrate._target import estimate_target
from expunge.request.evidence import Evidence
from expunge.request.evidence._build import RequestInputs, build_evidence
from expunge.request.evidence._measurements import MATCHED, SplitPredictions
from expunge.request.evidence._sections import Stop
from expunge.request.preflight._check import Preflight
from expunge.request.subject._load import Subject
from tests.unit.request.evidence.made_up import splits
from tests.unit.request.preflight.findings import check
from tests.unit.request.worlds import job_of, subject_of

KEY = IdKey(bytes(32), Path("id.key"))


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    return subject_of(tmp_path_factory.mktemp("subject"))


@pytest.fixture(scope="module")
def findings(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Preflight:
    return check(subject, tmp_path_factory.mktemp("findings"))


@pytest.fixture
def judge(subject: Subject, findings: Preflight, tmp_path: Path) -> Any:
    def judged(before: SplitPredictions, after: SplitPredictions, epoch: int = 5) -> Evidence:
        """The evidence of a run that satisfied val with these predictions."""
        job = job_of(tmp_path)
        chosen = range(len(before.forget.labels))
        target = estimate_target(before.val, before.forget.labels, before.retain.labels)
        calibration = CalibrationResult(
            model=subject.model,
            history=History(),
            epochs=[],
            stopped=Stop(epoch=epoch, reason="Indistinguishable.", status="achieved"),
            target=target,
            before=compare(before.forget, before.val, target),
            after=compare(after.forget, after.val, target),
        )
        requested = RequestedRecords(tuple(chosen), ("a",), {"a": tuple(chosen)})
        hashed = requested.hashed(KEY)
        inputs = RequestInputs(job, requested, hashed, KEY, Ledger(tmp_path), {})
        forget, retain = subject.train.subset(chosen), subject.train.subset([0])
        examination = Examination(subject, findings, tuple(chosen), forget, retain, before)
        return build_evidence(inputs, examination, calibration, after)

    return judged


def test_records_that_look_unseen_afterwards_are_achieved(judge: Any) -> None:
    before = splits(records=150, forget_accuracy=1.0, forget_margin=6.0)
    after = splits(records=150, forget_accuracy=0.95, forget_margin=2.0)
    evidence = judge(before, after)
    assert evidence.status == "achieved"
    assert evidence.power.power == 1.0
    assert not any(row.broken for row in evidence.floors)
    assert evidence.verdict.next_steps == []
    assert all(row.budget.endswith(MATCHED) for row in evidence.attacks)
    assert evidence.schema_version == 4


def test_150_records_forgotten_by_breaking_their_class_are_not_achieved(judge: Any) -> None:
    before = splits(records=150, forget_accuracy=1.0, forget_margin=6.0, class_accuracy=0.956)
    after = splits(records=150, forget_accuracy=0.84, forget_margin=2.0, class_accuracy=0.786)
    evidence = judge(before, after)
    assert evidence.held_out.indistinguishable, "the comparison class fell along"
    assert evidence.status == "not achieved"
    assert any("records of class ant fell from 95" in words for words in evidence.verdict.reasons)
    assert any("--floor" in step for step in evidence.verdict.next_steps)
    assert evidence.power is None, "a failed test needs none"


def test_12_records_that_were_right_before_and_after_cannot_be_told(judge: Any) -> None:
    before = splits(records=12, forget_accuracy=1.0, forget_margin=2.1)
    evidence = judge(before, before)
    assert evidence.held_out.indistinguishable
    assert evidence.status == "cannot be told"
    assert evidence.power.power < 0.8
    assert evidence.unlearned, "the unlearned model is kept"
    assert any("unlearned model of the bundle" in step for step in evidence.verdict.next_steps)
