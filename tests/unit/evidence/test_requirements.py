"""What regulators ask: each rule once, and no claim that the verdict does not make."""

from __future__ import annotations

from typing import get_args

import pytest

from expunge.evidence import REQUIREMENTS, claims_of
from expunge.evidence._requirements import ANSWERED, DERIVED, FORGOTTEN, LIMITED, RECOMPUTED
from expunge.evidence._sections import Status
from tests.unit.report import fake


def test_the_rules_of_the_documentation_are_mapped_once() -> None:
    rules = [(each.standard.split()[0], each.identifier) for each in REQUIREMENTS]
    assert len(rules) == len(set(rules))
    assert {standard for standard, _ in rules} == {"GDPR", "EDPB", "ICO", "CNIL", "NIST"}
    articles = {identifier for standard, identifier in rules if standard == "GDPR"}
    assert articles == {"Art. 17(1)", "Art. 5(2)", "Art. 12(3)", "Art. 19"}


@pytest.mark.parametrize("status", get_args(Status))
def test_only_an_achieved_request_supports_that_records_were_forgotten(status: Status) -> None:
    bearing = claims_of(fake.evidence(status=status))[FORGOTTEN].bearing
    expected = {"achieved": "supports", "not achieved": "contradicts", "inconclusive": "open"}
    assert bearing == expected[status]


def test_nothing_is_claimed_that_the_job_does_not_say() -> None:
    evidence = fake.evidence()
    assert {ANSWERED, DERIVED} <= set(claims_of(evidence))
    request = evidence.request.model_copy(update={"received": None, "due": None})
    silent = evidence.model_copy(update={"derived": [], "request": request})
    assert set(claims_of(silent)) == {FORGOTTEN, RECOMPUTED, LIMITED}
