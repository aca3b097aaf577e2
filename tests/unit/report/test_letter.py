"""The letter to the person who asked, read as that person would."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any, get_args

import pytest

from expunge.evidence import Evidence
from expunge.evidence._sections import Status
from expunge.report import render_letter
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
    assert "None" not in text.replace("None of them", "")


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
        ("inconclusive", "too little data to measure whether the model still knows"),
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
    assert "You asked that 40 records be removed" in text, "for its copies nobody asked"
    assert "received on 28 February 2026, completed on 14 March 2026" in " ".join(text.split())
    assert f"right on {ua.before.value:.0f} % of these records" in text
    assert f"Now it is right on {ua.after.value:.0f} %" in text
    assert ua.after_benign_steps is not None
    assert f"trained further on other data is right on {ua.after_benign_steps.value:.0f} %." in text
    assert f"that it has never seen, it is right on {ua.target.value:.0f} %." in text
    assert FINGERPRINT in text
    assert "we found 2 copies of them, which we removed as well." in " ".join(text.split())


def test_copies_of_one_record_are_copies_of_it() -> None:
    evidence = fake.evidence(3)
    text = " ".join(markdown(evidence).split())
    assert "You asked that one record be removed from what our model has learned. In our " in text
    assert "we found 2 copies of it, which we removed as well. That is 3.5 % of all" in text
    request = evidence.request.model_copy(update={"copies": 1, "records": 2, "received": None})
    text = " ".join(markdown(evidence.model_copy(update={"request": request})).split())
    assert "One record was to be removed from what our model has learned." in text
    assert "we found one copy of it" in text


def test_the_letter_says_you_only_to_those_who_asked() -> None:
    evidence = fake.evidence(42)

    def asked(ids: int, received: str | None = None, records: int = 0, **config: object) -> str:
        update = {"ids": ids, "received": received, "copies": 0}
        request = evidence.request.model_copy(update=update)
        changed = evidence.model_copy(
            update={"request": request, "config": evidence.config | config}
        )
        person = "anna" if records else ""
        text = render_letter(changed, FINGERPRINT, "md", person=person, records=records)
        return " ".join(text.split())

    title = "# Your request to remove data from our model"
    assert f"{title} Request 3" in asked(1, "2026-03-01")
    assert "You asked that 42 records be removed" in asked(1, "2026-03-01")
    assert f"{title} Request 3" in asked(1, id_column="person")
    own = asked(9, records=5, id_column="person")
    assert f"{title} To: anna Request 3" in own
    assert "You asked that your 5 records be removed from what our model has learned." in own
    assert "that your one record be removed" in asked(9, records=1, id_column="person")
    each = asked(9, id_column="person")
    assert f"{title} Request 3" in each
    assert "You asked that your records be removed from what our model has learned." in each
    assert "We carried out the requests of 9 people together, 42 records in all, and" in each
    assert "That is 3.5 % of all the data that the model learned from." in each
    nobody = asked(1)
    assert "# Removal of data from our model Request 3" in nobody
    assert "42 records were to be removed from what our model has learned" in nobody
    assert not re.search(r"(?i)\byou asked|\byour request", nobody)


def with_retraining(evidence: Evidence, seconds: float | None) -> Evidence:
    """The same evidence where retraining takes another time."""
    cost = evidence.preflight.cost.model_copy(update={"retraining_seconds": seconds})
    preflight = evidence.preflight.model_copy(update={"cost": cost})
    return evidence.model_copy(update={"preflight": preflight})


def test_why_it_was_not_trained_again_is_said_with_what_it_costs() -> None:
    evidence = fake.evidence()
    assert evidence.seconds is not None
    wall = evidence.seconds.wall.model_copy(update={"total": 60.0})
    seconds = evidence.seconds.model_copy(update={"wall": wall})

    def letter(retraining: float | None, status: Status = "achieved") -> str:
        given = fake.evidence(status=status).model_copy(update={"seconds": seconds})
        return markdown(with_retraining(given, retraining))

    assert (
        "would take about 2.0 hours, 120 times as long as what we did, which took 60 seconds."
        in letter(7200.0)
    )
    assert "by our measurements, the model already" in letter(7200.0).lower()
    assert "disproportionate" in letter(7200.0)
    assert "It would leave no doubt" in letter(7200.0, "inconclusive")
    assert "disproportionate" not in letter(7200.0, "not achieved")
    assert "training again is what remains" in letter(7200.0, "not achieved")
    assert "hardly more than what we did, which took 60 seconds" in letter(70.0)
    assert "about 2.0 seconds, less than what we did, which took 60 seconds" in letter(2.0)
    assert "disproportionate" not in letter(2.0)
    wall = wall.model_copy(update={"total": 40.0})
    seconds = seconds.model_copy(update={"wall": wall})
    assert "that and what we did take less than a minute each. [Say why" in letter(5.0)
    assert "times" not in letter(59.0)
    assert "We do not know how long" in letter(None)
    without = markdown(evidence.model_copy(update={"seconds": None}))
    assert "compare it with what we did. [Say why" in without


def test_the_bound_is_stated_as_pairs() -> None:
    text = markdown(fake.evidence())
    assert "We tried 6 ways to tell" in text
    assert "None of them is right in more than 54 of 100 pairs" in text
    assert "guessing gives 50. That also holds for the copy" in text
    delivered = [check for check in fake.evidence().checks if check.moment == "as delivered"]
    short = markdown(fake.evidence().model_copy(update={"checks": delivered}))
    assert "of 100 pairs" in short
    assert "That also holds" not in short


def test_a_bound_is_never_rounded_down() -> None:
    evidence = fake.evidence()
    update = {"checks": [evidence.checks[0].model_copy(update={"low": 0.4, "high": 0.531})]}
    assert "more than 60 of 100" in markdown(evidence.model_copy(update=update))
    update = {"checks": [evidence.checks[0].model_copy(update={"low": 0.49, "high": 0.531})]}
    assert "more than 54 of 100" in markdown(evidence.model_copy(update=update))


def test_an_inconclusive_letter_says_what_is_open_and_why() -> None:
    evidence = fake.evidence(status="inconclusive")
    text = markdown(evidence)
    assert "right in at most 55 of 100 pairs, which we set as the limit beforehand, is open" in text
    assert "42 records are too few to measure that. About 463 would be enough." in text
    lost = next(check for check in evidence.checks if check.name == "lost")
    update = {"checks": [lost.model_copy(update={"result": "open"})]}
    text = markdown(evidence.model_copy(update=update))
    assert "about as good on other data as before is open" in text
    assert "no other data of their kind" in text


def test_a_discarded_model_is_never_taken_for_the_one_in_use() -> None:
    text = markdown(fake.evidence(status="not achieved"))
    assert "so we did not keep it, and the model is the one from before." in text
    assert "The model, which is the one from before, is right on 100 % of these records." in text
    assert "The changed model, which we did not keep, was right on 88 %" in text
    assert "right in at least 61 of 100 pairs. Guessing gives 50, and we allowed 55." in text
    assert "On other data, the changed model was worse than we allow." in text
    assert "Now it is" not in text
    assert " now." not in text
    assert "There was a way to tell one of these records from data that the changed model" in text


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"method": "refresh:budget=0.3"}, "with random values, and then trained it"),
        ({"method": "refresh", "exact": True}, "We trained the model again, without"),
        ({"method": "match"}, "its answers for these records become like"),
    ],
)
def test_what_was_done_depends_on_the_method(config: dict[str, Any], words: str) -> None:
    text = markdown(fake.evidence().model_copy(update={"config": config}))
    assert words in text
    assert ("Why the model was not trained again" in text) == ("exact" not in config)


def exactly(status: Status = "achieved", in_retain: int = 0, **config: object) -> str:
    """The letter of a request that trained the model again."""
    evidence = fake.evidence(status=status)
    kept = evidence.preflight.duplicates.model_copy(update={"in_retain": in_retain})
    preflight = evidence.preflight.model_copy(update={"duplicates": kept})
    config = {"method": "refresh", "exact": True, **config}
    return markdown(evidence.model_copy(update={"config": config, "preflight": preflight}))


def test_a_model_trained_again_is_not_said_to_be_anything_less() -> None:
    for status in ("achieved", "inconclusive"):
        text = exactly(status)
        assert "trained again without these records, so it has learned nothing from them." in text
        assert "We trained the model again, without these records, from the beginning." in text
        assert "does not prove that nothing is left" not in text
        assert "We compared these records with" not in text
        assert ("too little data to confirm that" in text) == (status == "inconclusive")
    assert "the model is as it was before" in exactly("not achieved")


@pytest.mark.parametrize("status", STATUSES)
@pytest.mark.parametrize("config", [{}, {"base": "base.safetensors"}, {"in_retain": 3}])
def test_headings_and_summary_are_blocks_of_their_own(
    status: Status, config: dict[str, Any]
) -> None:
    blocks = exactly(status, **config).split("\n\n")
    assert not any("## " in block.strip("# ") for block in blocks)
    summary = next(block for block in blocks if "**" in block).strip()
    assert summary[:2] == summary[-2:] == "**"
    assert summary[2:-2].strip()
    assert "**" not in summary[2:-2]


def test_a_model_trained_again_may_have_learned_of_the_records_in_other_ways() -> None:
    copies = exactly(in_retain=3)
    assert "learned nothing" not in copies
    assert "Copies of them remain in the data that it learned from." in copies
    from_base = exactly(base="base.safetensors")
    assert "learned nothing" not in from_base
    assert "from a state that it had before it learned from them. [Check" in from_base


def test_a_model_that_did_not_change_is_said_to_be_as_it_was() -> None:
    evidence = fake.evidence(status="inconclusive")
    stopped = evidence.stopped.model_copy(update={"epoch": 0})
    text = markdown(evidence.model_copy(update={"stopped": stopped}))
    assert "so the model is as it was" in text
    assert "changed" not in text.partition("## Questions")[0]
    failed = fake.evidence(status="not achieved").model_copy(update={"stopped": stopped})
    text = markdown(failed)
    assert "The model is right on 88 % of these records" in text
    assert "changed" not in text.partition("## Questions")[0]


def test_an_unsigned_record_says_so() -> None:
    evidence = fake.evidence()
    assert "The record is not signed: whoever can write to it could rewrite it" in (
        markdown(evidence)
    )
    signed = markdown(evidence.model_copy(update={"signed_by": FINGERPRINT}))
    assert "The record is signed as well." in signed
