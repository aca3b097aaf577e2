"""Verdicts on made-up measurements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch

from expunge.evaluation import Predictions
from expunge.request.calibrate._comparison import Comparison, compare
from expunge.request.calibrate._power import Power
from expunge.request.calibrate._target import estimate_target
from expunge.request.evidence._sections import EarlierRequest, FloorCheck, RequestVerdict, Stop
from expunge.request.evidence._verdict import AUDIT_PREFIX, LIMITS, find_objections, judge_request
from tests.unit.report import fake

VAL = Predictions(torch.eye(2).repeat(20, 1), torch.arange(40) % 2)
PASSED = replace(
    compare(VAL.take(range(8)), VAL, estimate_target(VAL, VAL.labels[:8]), shuffles=20),
    indistinguishable=True,
)
FAILED = replace(PASSED, indistinguishable=False, reasons=("The two differ.",))
STRONG, WEAK = Power(38, 40, 2.5), Power(3, 40, 0.6)
BROKEN = FloorCheck(
    name="cat",
    split="test",
    records=250,
    before=95.6,
    after=78.6,
    lost=17.0,
    low=12.3,
    allowed=2.8,
    broken=True,
)


def judge(
    held_out: Comparison = PASSED,
    *,
    earlier: Sequence[EarlierRequest] = (),
    floors: Sequence[FloorCheck] = (),
    **changes: Any,
) -> RequestVerdict:
    evidence = fake.evidence(42)
    stopped = changes.pop("stopped", Stop(epoch=7, reason="Epoch 7 arrived.", status="achieved"))
    values: dict[str, Any] = {
        "stopped": stopped,
        "records": 42,
        "metrics": evidence.metrics,
        "attacks": evidence.attacks,
        "exposed": 0,
        "objections": find_objections(stopped, earlier, held_out, floors),
        "power": STRONG,
        "warnings": ["Mind the gap."],
    }
    return judge_request(**(values | changes))


def test_a_run_that_passes_the_audit_is_achieved() -> None:
    verdict = judge(earlier=fake.evidence().earlier[:1])
    assert verdict.status == "achieved"
    assert verdict.reasons == ["Epoch 7 arrived.", "Mind the gap."]
    assert "right on 88.1 % of them, 87.1 % would be expected" in verdict.headline
    assert "none of 6 attacks tells them" in verdict.headline
    assert "test accuracy is 0.6 points lower" in verdict.headline
    assert "inside the interval expected" in verdict.shown[0]
    assert "noticed a model that forgot nothing: in 38 of 40" in verdict.shown[-1]
    assert verdict.not_shown == list(LIMITS)


def test_a_pass_without_power_cannot_be_told() -> None:
    verdict = judge(power=WEAK)
    assert verdict.status == "cannot be told"
    assert "cannot be told" in verdict.headline
    assert "42 records were unlearned and nothing else broke" in verdict.headline
    assert "would have passed the same tests in 37 of 40 resamplings" in verdict.reasons[1]
    assert verdict.not_shown[1:] == list(LIMITS)


def test_a_failed_test_is_not_achieved_whatever_the_power() -> None:
    assert judge(FAILED, power=WEAK).status == "not achieved"
    assert judge(FAILED, power=None).status == "not achieved"


def test_a_broken_class_is_not_achieved_and_named() -> None:
    verdict = judge(floors=[BROKEN, BROKEN.model_copy(update={"name": "dog", "broken": False})])
    assert verdict.status == "not achieved"
    assert verdict.objections == [
        "Something else broke: accuracy on the 250 test records of class cat fell from 95.6 to "
        "78.6 %, by 17.0 points; chance left aside by at least 12.3, where 2.8 are allowed."
    ]
    assert verdict.objections[0] in verdict.reasons


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


def test_over_forgotten_records_are_told_apart_too() -> None:
    first, *others = fake.evidence().attacks
    avoided = first.after.model_copy(update={"verdict": "over-forgotten"})
    verdict = judge(attacks=[first.model_copy(update={"after": avoided}), *others])
    assert "1 of 6 attacks tells them" in verdict.headline
    assert any(f"{first.name} (over-forgotten)" in reason for reason in verdict.reasons)


def test_attempts_are_counted() -> None:
    verdict = judge(attempts=fake.evidence().attempts, seed=8)
    (reason,) = (reason for reason in verdict.reasons if "attempt" in reason)
    assert reason.startswith("This is attempt 2 (seed 8)")
    assert "not achieved (seed 7, 2026-03-13, in another folder)" in reason


def test_a_run_that_did_not_arrive_is_not_held_against_the_audit() -> None:
    stopped = Stop(epoch=0, reason="Too slow.", status="not achieved")
    verdict = judge(FAILED, stopped=stopped, floors=[BROKEN], power=None)
    assert verdict.status == "not achieved"
    assert verdict.reasons == ["Too slow.", "Mind the gap."]
