"""What is suggested where a request was not achieved, or where that cannot be told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from expunge.request._job import make_job
from expunge.request.evidence._next_steps import suggest_next_steps
from expunge.request.evidence._sections import FloorCheck, Status
from tests.unit.report import fake

IDS = Path("anna.csv")
JOB = make_job(weights=Path("w.safetensors"), out=Path("requests"), ids=IDS, method="SRL")
EPOCH = {"ua": 80.0, "target_low": 40.0, "target_high": 60.0, "action": "", "epoch": 30}
BROKEN = FloorCheck(
    name="cat",
    split="test",
    records=250,
    before=95.0,
    after=78.0,
    lost=17.0,
    low=12.31,
    allowed=2.8,
    broken=True,
)


def steps(status: Status = "not achieved", **changes: Any) -> str:
    values: dict[str, Any] = {
        "arrived": True,
        "audit_failed": False,
        "rows": [EPOCH],
        "unseen_of_classes": {"val": 13, "test": 45},
        "cost": {"retraining_seconds": 90.0, "note": "Retraining for 20 epochs."},
        "number": 3,
        "has_card": True,
    }
    job = changes.pop("job", JOB)
    return "\n".join(suggest_next_steps(status, job, **(values | changes)))


def test_what_was_achieved_needs_no_next_step() -> None:
    assert steps("achieved") == ""


def test_a_run_that_did_not_arrive_tries_another_method_more_epochs_or_a_larger_floor() -> None:
    text = steps(arrived=False)
    assert "--method match-unseen" in text
    best = make_job(weights=Path("w.safetensors"), out=Path("requests"), method="match-unseen")
    assert "--method" not in steps(arrived=False, job=best), "none did better"
    assert "--max-epochs 60" in text
    assert "--floor 4" in text
    ended_early = steps(arrived=False, rows=[EPOCH | {"epoch": 7}])
    assert "--max-epochs" not in ended_early, "it stopped for another reason"


def test_retraining_and_its_cost_are_always_named() -> None:
    assert "Retrain without the records" in steps()
    assert "about 90 s" in steps()
    assert "Retraining for 20 epochs." in steps()
    assert "its cost is not known" in steps(cost={"retraining_seconds": None})


def test_an_audit_that_failed_asks_for_validation_data() -> None:
    text = steps(audit_failed=True)
    assert "13 validation records of the forgotten classes" in text
    assert "45 test records" in text


def test_a_broken_class_names_the_floor_that_would_allow_it() -> None:
    assert "--floor 11.6" in steps(floors=[BROKEN])


def test_records_that_came_back_are_requested_together() -> None:
    assert "those of request 2" in steps(earlier=fake.evidence().earlier)


def test_where_it_cannot_be_told_every_record_can_be_tested_if_that_is_affordable() -> None:
    text = steps("cannot be told")
    assert "expunge unlearn w.safetensors --method SRL --forget ids:FILE -o" in text
    assert IDS.name not in text, "it may be named after a person"
    assert "--shadows 16" in text
    assert "24 min" in text
    costly = steps("cannot be told", cost={"retraining_seconds": 1e6})
    assert "expunge unlearn" not in costly
    assert "of training here" in costly
    assert "weights that say how" in steps("cannot be told", has_card=False)


def test_a_language_model_goes_further_or_in_smaller_steps() -> None:
    on_its_way = steps(arrived=False, texts=True)
    assert "--max-epochs 60" in on_its_way
    assert "larger steps" in on_its_way
    passed = steps(arrived=False, texts=True, rows=[EPOCH | {"ua": 30.0}])
    assert "smaller steps" in passed
    assert "--max-epochs 90" in passed


def test_a_language_model_that_broke_weighs_what_is_retained_more() -> None:
    assert "--alpha" not in steps(arrived=False, texts=True)
    broke = steps(arrived=False, texts=True, rows=[EPOCH | {"action": "class all"}, EPOCH])
    assert "--alpha 0.025" in broke


def test_few_records_of_a_language_model_are_better_requested_together() -> None:
    text = steps("cannot be told", texts=True)
    assert "several requests as one" in text
    assert "shadow" not in text
