"""What is suggested where a request was not achieved, or is inconclusive."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expunge.evidence._sections import EarlierRequest, Interval, Status
from expunge.request._job import make_job
from expunge.request.verdict._next_steps import suggest_next_steps
from tests.unit.report import fake_rows as rows
from tests.unit.request.verdict.checks import make_check

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


def test_exact_deletion_and_its_cost_are_always_named() -> None:
    for status in ("not achieved", "inconclusive"):
        assert "`--exact`, about 90 s on this machine" in steps(status)
    assert "`--exact`." in steps(cost=COST.model_copy(update={"retraining_seconds": None}))


def test_an_inconclusive_request_says_how_many_records_would_decide() -> None:
    opened = [make_check(result="open", needed=1200), make_check(result="open", needed=800)]
    text = steps("inconclusive", checks=opened)
    assert "about 1,200 records would decide" in text
    assert "unlearned model of the bundle" in text


def test_records_of_earlier_requests_that_come_back_are_requested_together() -> None:
    exposed = EarlierRequest(
        number=2,
        records=9,
        ua=Interval(value=90.0, low=80.0, high=95.0),
        check=None,
        status="exposed again",
    )
    assert "those of request 2" in steps(earlier=[exposed])
