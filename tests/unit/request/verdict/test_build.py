"""Evidence of made-up predictions: what is achieved, what is not, and what is inconclusive."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from expunge.data import Examples
from expunge.evidence import Evidence
from expunge.evidence._sections import Stop
from expunge.ledger._id_key import IdKey
from expunge.ledger._ledger import Ledger
from expunge.request._forgetting import ForgettingResult
from expunge.request._ids import RequestedRecords
from expunge.request.loading._load import ModelAndData
from expunge.request.preflight._preflight import Preflight
from expunge.request.verdict._build import Request, conclude, margins_of
from expunge.request.verdict._measurements import RequestData, RequestPredictions
from tests.unit.request.preflight.findings import check
from tests.unit.request.verdict.made_up import splits
from tests.unit.request.worlds import job_of, loaded_world

KEY = IdKey(bytes(32), Path("id.key"))
Judge = Callable[..., Evidence]


class Relearned(RequestData):
    """What the model predicts is made up, as delivered and after benign steps."""

    after: RequestPredictions
    later: RequestPredictions

    def predict(self, model: nn.Module) -> RequestPredictions:
        return self.after

    def predict_after_benign_steps(self, model: nn.Module, seed: int) -> RequestPredictions:
        return self.later


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> ModelAndData:
    return loaded_world(tmp_path_factory.mktemp("loaded"))


@pytest.fixture(scope="module")
def findings(loaded: ModelAndData, tmp_path_factory: pytest.TempPathFactory) -> Preflight:
    return check(loaded, tmp_path_factory.mktemp("findings"))


@pytest.fixture
def judge(loaded: ModelAndData, findings: Preflight, tmp_path: Path) -> Judge:
    def judged(
        before: RequestPredictions,
        after: RequestPredictions,
        later: RequestPredictions | None = None,
    ) -> Evidence:
        """The evidence of a run with these predictions."""
        chosen = range(len(before.forget.labels))
        stopped = Stop(epoch=5, reason="Trained for 5 epochs.")
        result = ForgettingResult(loaded.model, [], stopped)
        requested = RequestedRecords(tuple(chosen), ("a",), {"a": tuple(chosen)})
        hashed = requested.hashed(KEY)
        config = {"seed": 0, "in_memory": False}
        request = Request(job_of(tmp_path), requested, hashed, Ledger(tmp_path), config)
        labels = before.retain.labels
        forget = loaded.train.subset(chosen)
        retain = Examples(torch.zeros(len(labels), 1), labels, loaded.classes)
        divided = Relearned(loaded, findings, tuple(chosen), forget, retain, retain)
        object.__setattr__(divided, "before", before)
        object.__setattr__(divided, "after", after)
        object.__setattr__(divided, "later", later or after)
        return conclude(request, divided, result)

    return judged


BEFORE = splits(records=150, forget_accuracy=1.0, forget_margin=6.0)
UNSEEN = splits(records=150, forget_accuracy=0.95, forget_margin=2.0)


def test_records_that_look_unseen_at_both_moments_are_achieved(judge: Judge) -> None:
    evidence = judge(BEFORE, UNSEEN)
    assert evidence.status == "achieved"
    assert {row.result for row in evidence.checks} == {"inside"}
    assert {row.moment for row in evidence.checks} == {"as delivered", "after benign steps"}
    assert evidence.verdict.next_steps == []
    assert evidence.margins["auc"] == 0.6


def test_margins_follow_from_all_retained_records_not_from_the_sample(tmp_path: Path) -> None:
    labels = BEFORE.retain.labels
    few, many = (margins_of(job_of(tmp_path), BEFORE, labels.repeat(n)) for n in (1, 50))
    assert many.test < few.test


def test_records_that_come_back_after_benign_steps_are_not_achieved(judge: Judge) -> None:
    evidence = judge(BEFORE, UNSEEN, BEFORE)
    assert evidence.status == "not achieved"
    outside = [row for row in evidence.checks if row.result == "outside"]
    assert {row.moment for row in outside} == {"after benign steps"}


def test_150_records_forgotten_by_breaking_their_class_are_not_achieved(judge: Judge) -> None:
    before = splits(records=150, forget_accuracy=1.0, forget_margin=6.0, class_accuracy=0.956)
    after = splits(records=150, forget_accuracy=0.7, forget_margin=2.0, class_accuracy=0.66)
    evidence = judge(before, after)
    of_records = [row for row in evidence.checks if row.name.startswith(("auc", "accuracy"))]
    assert not any(row.result == "outside" for row in of_records), "the class fell along"
    assert evidence.status == "not achieved"
    assert any("Test accuracy lost in ant" in words for words in evidence.verdict.reasons)


def test_12_records_are_inconclusive(judge: Judge) -> None:
    few = splits(records=12, forget_accuracy=0.95, forget_margin=2.0)
    evidence = judge(few, few)
    assert evidence.status == "inconclusive"
    assert evidence.unlearned, "the unlearned model is kept"
    assert any("unlearned model of the bundle" in step for step in evidence.verdict.next_steps)


def test_metrics_show_unseen_data_alike_and_what_came_back(judge: Judge) -> None:
    row = judge(BEFORE, UNSEEN, BEFORE).metric("ua")
    assert row.before.value == 100.0
    assert row.after_benign_steps is not None
    assert row.after_benign_steps.value == 100.0
    assert row.target is not None
    assert row.target.value == pytest.approx(95.2, abs=0.3)
