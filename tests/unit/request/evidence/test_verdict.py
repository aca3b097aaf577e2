"""Verdicts on made-up measurements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from expunge.evaluation import Predictions
from expunge.request.calibrate._comparison import Comparison, compare
from expunge.request.calibrate._target import estimate_target
from expunge.request.evidence._sections import RequestVerdict, Stop
from expunge.request.evidence._verdict import AUDIT_PREFIX, LIMITS, judge_request
from tests.unit.report import fake

VAL = Predictions(torch.eye(2).repeat(20, 1), torch.arange(40) % 2)
PASSED = replace(
    compare(VAL.take(range(8)), VAL, estimate_target(VAL, VAL.labels[:8]), shuffles=20),
    indistinguishable=True,
)
FAILED = replace(PASSED, indistinguishable=False, reasons=("The two differ.",))


def judge(held_out: Comparison = PASSED, **changes: Any) -> RequestVerdict:
    evidence = fake.evidence(42)
    stopped = Stop(epoch=7, reason="Epoch 7 arrived.", status="achieved")
    values: dict[str, Any] = {
        "stopped": stopped,
        "records": 42,
        "metrics": evidence.metrics,
        "attacks": evidence.attacks,
        "examples": evidence.examples,
        "earlier": evidence.earlier[:1],
        "warnings": ["Mind the gap."],
    }
    return judge_request(held_out=held_out, **(values | changes))


def test_a_run_that_passes_the_audit_is_achieved() -> None:
    verdict = judge()
    assert verdict.status == "achieved"
    assert verdict.reasons == ["Epoch 7 arrived.", "Mind the gap."]
    assert "right on 88.1 % of them, 87.1 % would be expected" in verdict.headline
    assert "none of 6 attacks tells them" in verdict.headline
    assert "test accuracy is 0.6 points lower" in verdict.headline
    assert "inside the interval expected" in verdict.shown[0]
    assert verdict.not_shown == list(LIMITS)


def test_the_audit_on_test_data_has_the_last_word() -> None:
    verdict = judge(FAILED)
    assert verdict.status == "not achieved"
    assert f"{AUDIT_PREFIX}The two differ." in verdict.reasons
    assert "as it was before" in verdict.headline


def test_earlier_records_that_stand_out_again_are_not_achieved() -> None:
    verdict = judge(earlier=fake.evidence().earlier)
    assert verdict.status == "not achieved"
    assert "The records of request 2 stand out again" in verdict.reasons[1]


@pytest.mark.parametrize(("status", "mentioned"), [("achieved", True), ("not achieved", False)])
def test_attacks_are_mentioned_but_decide_nothing(status: Any, mentioned: bool) -> None:
    attacks = [row.model_copy(update={"after": row.before}) for row in fake.evidence().attacks]
    verdict = judge(attacks=attacks, stopped=Stop(epoch=7, reason="", status=status))
    assert verdict.status == status
    assert any("6 of 6 attacks tell the records" in r for r in verdict.reasons) == mentioned


def test_a_run_that_did_not_arrive_is_not_held_against_the_audit() -> None:
    verdict = judge(FAILED, stopped=Stop(epoch=0, reason="Too slow.", status="not achieved"))
    assert verdict.status == "not achieved"
    assert verdict.reasons == ["Too slow.", "Mind the gap."]
