"""The letter to the person who asked, read as that person would."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import get_args

import pytest

from expunge.report import render_letter
from expunge.request.evidence import Evidence
from expunge.request.evidence._sections import Status
from tests.unit.report import fake

FINGERPRINT = "5ea1" * 16
JARGON = (
    "auc|ks|quantile|epochs?|logits?|p-values?|entropy|confidence|intervals?|accuracy|attacks?|"
    "membership|hash|gradient|checkpoint|validation|dataset|unlearn\\w*|retrain\\w*|utility|"
    "distribution|power|sha-?256|nan|null|inf"
)
STATUSES = get_args(Status)


def markdown(evidence: Evidence) -> str:
    return render_letter(evidence, FINGERPRINT, "md")


class _Text(HTMLParser):
    """The words of a page, without its style."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["style"] and self.tags[-1:] != ["title"]:
            self.words += data.replace("\xa0", " ").split()


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("records", [1, 42])
def test_there_is_no_jargon(status: Status, records: int) -> None:
    text = markdown(fake.evidence(records, status=status))
    assert re.findall(rf"(?i)\b({JARGON})\b", text.replace(FINGERPRINT, "")) == []
    assert "None" not in text


@pytest.mark.parametrize("status", STATUSES)
def test_both_forms_have_the_same_words(status: Status) -> None:
    evidence = fake.evidence(status=status)
    page = render_letter(evidence, FINGERPRINT)
    parser = _Text()
    parser.feed(page)
    plain = re.sub(r"(?m)^(#+|-) |\*\*", "", markdown(evidence))
    assert parser.words == plain.split()
    assert "script" not in parser.tags
    assert "default-src 'none'" in page


def test_each_verdict_says_what_it_means_in_one_sentence() -> None:
    for status, words in (
        ("achieved", "treats these records like data that it has never seen"),
        ("not achieved", "did not succeed, and the model is as it was before"),
        ("cannot be told", "nobody could measure whether it still does"),
    ):
        text = markdown(fake.evidence(status=status))  # type: ignore[arg-type]
        (sentence,) = re.findall(r"\*\*(.+)\*\*", text)
        assert words in sentence
        assert sentence.count(".") == 1


def test_what_was_asked_done_and_measured_is_there_in_numbers() -> None:
    evidence = fake.evidence(42)
    text = markdown(evidence)
    ua = evidence.metric("ua")
    assert ua.target is not None
    assert "42 records" in text
    assert f"right on {ua.before.value:.0f} % of these records" in text
    assert f"Now it is right on {ua.after.value:.0f} %" in text
    assert f"{ua.target.low:.0f} to {ua.target.high:.0f} %" in text
    assert FINGERPRINT in text
    nothing = ua.target.model_copy(update={"value": 0.0, "low": 0.0, "high": 0.2})
    metrics = [ua.model_copy(update={"target": nothing})]
    assert "right on about 0 %." in markdown(evidence.model_copy(update={"metrics": metrics}))
    assert "2 of them are copies" in text
    assert "one record" in markdown(fake.evidence(1))


def test_why_it_was_not_trained_again_is_said_with_what_it_costs() -> None:
    evidence = fake.evidence()
    assert evidence.cost is not None

    def letter(retraining: float | None, status: Status = "achieved") -> str:
        cost = evidence.cost
        assert cost is not None
        update = {"retraining_seconds": retraining, "request_seconds": 60.0}
        given = fake.evidence(status=status)
        return markdown(given.model_copy(update={"cost": cost.model_copy(update=update)}))

    assert (
        "would take about 2.0 hours, 120 times as long as what we did, which took 60 seconds."
        in letter(7200.0)
    )
    assert "by our measurements, the model already" in letter(7200.0).lower()
    assert "out of proportion" in letter(7200.0)
    assert "It would leave no doubt" in letter(7200.0, "cannot be told")
    assert "out of proportion" not in letter(7200.0, "not achieved")
    assert "training again is what remains" in letter(7200.0, "not achieved")
    assert "hardly more than what we did, which took 60 seconds" in letter(70.0)
    assert "about 2 seconds, less than what we did, which took 60 seconds" in letter(2.0)
    assert "out of proportion" not in letter(2.0)
    assert "is not known to us" in letter(None)
    without = markdown(evidence.model_copy(update={"cost": None}))
    assert "compare it with what we did. [Say why" in without


def test_none_is_a_word() -> None:
    evidence = fake.evidence()
    fine = evidence.attacks[0].after.model_copy(update={"verdict": "not detected"})
    attacks = [row.model_copy(update={"before": fine, "after": fine}) for row in evidence.attacks]
    text = markdown(evidence.model_copy(update={"attacks": attacks}))
    assert "Before, none of them could tell; now none can." in text


def test_an_unsigned_record_says_so() -> None:
    evidence = fake.evidence()
    assert "The record is not signed: whoever can write to it could rewrite it" in (
        markdown(evidence)
    )
    signed = markdown(evidence.model_copy(update={"signed_by": FINGERPRINT}))
    assert "The record is signed as well." in signed
