"""The verdict in sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from expunge.evidence._sections import (
    CheckResult,
    EarlierAttempt,
    EarlierRequest,
    Interval,
    MetricRow,
    RequestVerdict,
    Status,
    Stop,
)
from expunge.request._job import TEXT_METHOD, make_job
from expunge.request.verdict._checks import without_unattainable
from expunge.request.verdict._sentences import (
    _sentence,
    attack_bound,
    decide,
    suggest_next_steps,
    write_verdict,
)
from tests.unit.report import fake_rows as rows
from tests.unit.request.verdict.checks import make_check

STOPPED = Stop(epoch=5, reason="Trained for 5 epochs on retained data.")


def interval(value: float) -> Interval:
    return Interval(value=value, low=value - 2.0, high=value + 2.0)


def metric(name: str, before: float, after: float, **more: Any) -> MetricRow:
    values = {"label": name, "unit": "%", "direction": "higher", "target": None} | more
    return MetricRow(name=name, before=interval(before), after=interval(after), **values)


METRICS = [
    metric("ua", 99.0, 71.0, after_benign_steps=interval(72.0), target=interval(70.5)),
    metric("ta", 71.4, 70.2),
]


def verdict(status: Status, *checks: Any, **changes: Any) -> RequestVerdict:
    values: dict[str, Any] = {"records": 500, "stopped": STOPPED} | changes
    found = write_verdict(checks or [make_check()], METRICS, **values)
    assert found.status == status
    return found


def test_the_headline_of_an_achievement_states_the_bound() -> None:
    found = verdict("achieved", make_check(high=0.53), make_check("auc_entropy", low=0.46))
    assert "in more than 54 % of pairs" in found.headline, "below one half tells them apart as well"
    assert "test accuracy is 1.2 points lower" in found.headline


def test_the_bound_is_that_of_the_attack_that_reaches_farthest() -> None:
    assert attack_bound([make_check(high=0.53), make_check(low=0.44, high=0.5)]) == 0.56
    assert attack_bound([make_check("lost")]) is None


def test_what_lies_outside_is_a_reason() -> None:
    outside = make_check("lost", "outside", value=9.0, low=6.1, high=11.9)
    found = verdict("not achieved", make_check(), outside)
    assert "not forgotten within the margins" in found.headline
    assert (
        "Test accuracy lost, as delivered: 9.0 points [6.1, 11.9], margin 2.0 (outside)."
        in found.reasons
    )


def test_of_open_checks_of_a_kind_the_widest_is_a_reason() -> None:
    checks = [make_check(result="open", needed=n, label=f"attack {n}") for n in (700, 900, 800)]
    found = verdict("inconclusive", *checks)
    told = [reason for reason in found.reasons if "would decide" in reason]
    assert len(told) == 1
    assert "attack 900, as delivered: 0.51 [0.48, 0.54]" in told[0]
    assert "900 records would decide" in told[0]


def test_classes_without_unseen_data_are_named() -> None:
    found = verdict("inconclusive", make_check("lost"))
    assert "Test has no example of the forgotten classes to compare with." in found.reasons


def test_what_comes_back_after_benign_steps_is_shown() -> None:
    shown = verdict("achieved").shown[0]
    assert "from 99.0 % to 71.0 %; on unseen data alike it is 70.5 %" in shown
    assert "after benign steps 72.0 %" in shown


def test_earlier_records_that_stand_out_again_are_a_reason() -> None:
    exposed = EarlierRequest(
        number=1,
        records=9,
        ua=interval(97.0),
        check=make_check(value=0.8),
        status="exposed again",
    )
    reasons = verdict("not achieved", earlier=[exposed]).reasons
    assert any("request 1 stand out again" in reason and "0.80" in reason for reason in reasons)


def test_attempts_are_counted() -> None:
    attempt = EarlierAttempt(
        when="2026-01-02T03:04:05Z", seed=3, status="inconclusive", request=4, shared=12
    )
    reasons = verdict("achieved", attempts=[attempt], seed=7).reasons
    assert any(
        "attempt 2 (seed 7)" in r and "inconclusive (12 of them, seed 3" in r for r in reasons
    )


def test_an_achievement_over_a_model_that_hardly_knew_the_records_says_so() -> None:
    inside, outside = make_check(value=0.52), make_check(result="outside", value=0.7)
    assert any(
        "before the request either" in r for r in verdict("achieved", attack_before=inside).reasons
    )
    assert not any(
        "either" in reason for reason in verdict("achieved", attack_before=outside).reasons
    )


@pytest.mark.parametrize(
    ("results", "status"),
    [
        (["inside", "inside"], "achieved"),
        (["inside", "open"], "inconclusive"),
        (["open", "outside"], "not achieved"),
        ([], "inconclusive"),
    ],
)
def test_the_verdict_is_that_of_the_worst_check(results: list[CheckResult], status: str) -> None:
    assert decide([make_check(result=result) for result in results]) == status


PATHS = {"weights": Path("w.safetensors"), "out": Path("requests")}
REFRESH, PUSHED = make_job(**PATHS), make_job(**PATHS, method="SRL")
FAILED = make_check(result="outside", value=0.7, low=0.66, high=0.74)
BROKEN = make_check("lost_cat", "outside", value=17.0, low=12.3, high=21.0, margin=5.0)
COST = rows.preflight(9).cost.model_copy(update={"retraining_seconds": 90.0})


def steps(status: Status = "not achieved", **changes: Any) -> str:
    values = {"job": REFRESH, "checks": [FAILED], "cost": COST} | changes
    return "\n".join(suggest_next_steps(status, **values))


def test_what_was_achieved_needs_no_next_step() -> None:
    assert steps("achieved") == ""


def test_another_method_is_suggested_to_all_but_the_default() -> None:
    assert "--method refresh" in steps(job=PUSHED)
    assert "--method" not in steps()


def test_records_that_stand_out_need_a_deeper_refresh() -> None:
    assert "Keep less of the trained weights" in steps()


def test_what_was_lost_is_regained_by_longer_training() -> None:
    assert "Train longer: `--budget 0.33`" in steps(checks=[BROKEN])


def test_a_budget_is_suggested_to_refresh_alone() -> None:
    """Other methods have none: the job would be refused."""
    answers = make_job(**PATHS, method=TEXT_METHOD)
    for job, texts in ((PUSHED, False), (answers, True)):
        assert "--budget" not in steps(job=job, checks=[FAILED, BROKEN], texts=texts)


def test_exact_deletion_and_its_cost_are_always_named() -> None:
    for status in ("not achieved", "inconclusive"):
        assert "`--exact`, about 90 s on this machine" in steps(status)
    assert "`--exact`." in steps(cost=COST.model_copy(update={"retraining_seconds": None}))


def test_the_margin_of_an_attack_has_two_sides() -> None:
    avoided = make_check(result="open", value=0.41, low=0.37, high=0.46, margin=0.6)
    assert "0.41 [0.37, 0.46], margin 0.40 to 0.60 (open" in _sentence(avoided)


def test_exact_deletion_is_not_advised_after_exact_deletion() -> None:
    again = make_job(**PATHS, exact=True)
    for status in ("not achieved", "inconclusive"):
        found = steps(status, job=again, checks=[FAILED, BROKEN])
        assert "look for copies in the retained data" in found
        assert not any(option in found for option in ("--exact", "--budget", "--method"))
    assert "copies" not in steps("inconclusive", job=again, checks=[BROKEN])


def test_an_inconclusive_request_says_how_many_records_would_decide() -> None:
    opened = [make_check(result="open", needed=1200), make_check(result="open", needed=800)]
    text = steps("inconclusive", checks=opened)
    assert "about 1,200 records would decide" in text
    assert "unlearned model of the bundle" in text


def test_no_number_is_named_where_the_data_cannot_have_as_many() -> None:
    opened = make_check(result="open", needed=1001)
    assert without_unattainable(opened, 2002) is opened
    limited = without_unattainable(opened, 2001)
    assert limited.needed is None
    assert "would decide" not in _sentence(limited)
    text = steps("inconclusive", checks=[limited], too_small=True)
    assert "This data set is too small to decide at these margins." in text
    assert "Carry out several" not in text


def test_records_of_earlier_requests_that_come_back_are_requested_together() -> None:
    exposed = EarlierRequest(
        number=2,
        records=9,
        ua=Interval(value=90.0, low=80.0, high=95.0),
        check=None,
        status="exposed again",
    )
    assert "those of request 2" in steps(earlier=[exposed])
