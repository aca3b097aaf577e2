"""The letter to the person who asked: what was done and measured, in words for everybody."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from expunge.report._page import templates

if TYPE_CHECKING:
    from expunge.request.evidence._schema import Evidence
    from expunge.request.evidence._sections import MetricRow

RESULTS = {
    "achieved": "achieved",
    "not achieved": "not achieved",
    "cannot be told": "whether it was achieved cannot be told",
}
IN_ONE_SENTENCE = {
    "achieved": "As far as we can measure, the model now treats these records like data that it "
    "has never seen.",
    "not achieved": "Our attempt to remove these records from the model did not succeed, and the "
    "model is as it was before.",
    "cannot be told": "We changed the model so that it should no longer know these records, but "
    "with so little to look at nobody could measure whether it still does.",
}
DONE = (
    "We changed the model until its answers for these records were like its answers for data that "
    "it has never seen, and kept the rest of what it had learned."
)
DISCARDED = (
    "We tried to change the model so that its answers for these records become like its answers "
    "for data that it has never seen. The result did not pass all of our tests, so we did not keep "
    "it. The model is the one from before, and still carries what it learned from these records."
)
NOT_SHOWN = (
    "It is no proof that nothing is left of these records: we can only measure what the model "
    "does.",
    "How a model would treat these records if it had never seen them is an estimate: we did not "
    "train such a model to compare with.",
    "We looked at all of these records together. Somebody who spends much more effort may find out "
    "something about a single one.",
)
COPIES = (
    "This is about one model only: copies of the data in backups, logs, other systems and other "
    "models, and earlier versions of this model, can remain until they are deleted there. [Say "
    "what you do about them.]"
)
CONTACT = (
    "[Name and contact of the person in charge. How to object, and which authority takes "
    "complaints.]"
)
RETRAINING = (
    "The surest way would be to train the model again from the beginning without these records."
)
OUT_OF_PROPORTION = {
    "achieved": "It would be due again for every request like yours. By our measurements, the "
    "model already treats your records like data that it has never seen, so that training again "
    "would change little for you. That is why we hold it to be out of proportion. [Check that this "
    "is your reason, or give yours.]",
    "cannot be told": "It would be due again for every request like yours, here for {share} of the "
    "data. It would leave no doubt where our measurements leave one. We hold it to be out of "
    "proportion as long as nothing speaks against what we did. [Check that this is your reason, or "
    "give yours.]",
}
"""Why training again is not called for, where it would take much longer."""
REMAINS = (
    "As our attempt did not succeed, training again is what remains. [Say whether and when you "
    "will do it.]"
)
UNITS = ((120, 1, "seconds"), (7_200, 60, "minutes"), (172_800, 3_600, "hours"))
"""For durations below so many seconds: the unit's length in seconds, and its name."""
TELLS = ("detected", "over-forgotten")
"""Verdicts of tests that tell these records from unseen data."""


@dataclass(frozen=True)
class Section:
    """A heading and its paragraphs; as a list if there are several points."""

    heading: str
    paragraphs: tuple[str, ...]
    as_list: bool = False


def render_letter(evidence: Evidence, fingerprint: str, form: str = "html") -> str:
    """The letter as ``html`` or ``md``; ``fingerprint`` is the hash of ``evidence.json``."""
    request, status = evidence.request, evidence.status
    template = templates().get_template(f"letter.{form}")
    return template.render(
        number=request.number,
        date=_date(request.when),
        result=RESULTS[status],
        summary=IN_ONE_SENTENCE[status],
        sections=[
            Section("What was asked", _asked(evidence)),
            Section("What we did", _done(evidence)),
            Section("What we measured", _measured(evidence), as_list=True),
            Section("What this does not show", NOT_SHOWN, as_list=True),
            Section("Where copies can remain", (COPIES,)),
            Section("Why the model was not trained again", _proportion(evidence)),
            Section("Questions", (CONTACT, _fingerprint(evidence, fingerprint))),
        ],
    )


def _asked(evidence: Evidence) -> tuple[str, ...]:
    request = evidence.request
    text = (
        f"You asked that {_records(request.records)} be removed from what our model has learned: "
        f"{_share(request.share)} of all the data that it learned from."
    )
    if copies := request.copies.exact + request.copies.near:
        text += f" {copies} of them are copies that we found and counted in."
    if request.unseen:
        text += (
            f" The data that we test the model with, which it did not learn from, also hold "
            f"{_records(request.unseen)} of yours or of people who asked before you. We compared "
            f"nothing with {'it' if request.unseen == 1 else 'them'}."
        )
    return (text,)


def _done(evidence: Evidence) -> tuple[str, ...]:
    done, attempt = DONE if evidence.unlearned else DISCARDED, evidence.request.attempt
    if attempt > 1:
        done += f" This was attempt {attempt}."
        if evidence.unlearned:
            done += " The best of several attempts looks better than it is."
    return (done,)


def _measured(evidence: Evidence) -> tuple[str, ...]:
    metrics = {metric.name: metric for metric in evidence.metrics}
    points = []
    if "ua" in metrics:
        points.append(_on_the_records(metrics["ua"], evidence.unlearned, evidence.texts))
    if "ta" in metrics:
        before, after = metrics["ta"].before.value, metrics["ta"].after.value
        cases = "words" if evidence.texts else "cases"
        points.append(
            f"On other data, which it has never seen, it was right in {before:.0f} % of all "
            f"{cases} before, and is in {after:.0f} % now."
        )
    if evidence.attacks:
        told = [
            sum(getattr(row, when).verdict in TELLS for row in evidence.attacks)
            for when in ("before", "after")
        ]
        could, can = (str(count) if count else "none" for count in told)
        now = f"now {can} can" if evidence.unlearned else "that has not changed"
        points.append(
            f"We tried {len(evidence.attacks)} ways to find out from the model's answers whether "
            f"it had learned from these records. Before, {could} of them could tell; {now}."
        )
    if evidence.status == "achieved":
        points.append("Our tests would have noticed a model that had forgotten nothing.")
    elif evidence.status == "cannot be told":
        points.append(
            "Our tests would not have noticed what is left of them: there are too few records, or "
            "the model hardly knew them."
            if evidence.texts
            else "A model that had forgotten nothing would probably have passed our tests too: "
            "there are too few records, or the model hardly knew them."
        )
    else:
        points.append("At least one of our tests was not passed.")
    return tuple(points)


def _on_the_records(metric: MetricRow, changed: bool, texts: bool) -> str:
    now = f"Now it is right on {metric.after.value:.0f} %." if changed else "That has not changed."
    what = "the words in these records" if texts else "these records"
    text = f"Before, the model was right on {metric.before.value:.0f} % of {what}. {now}"
    if metric.target is None:
        return text
    low, high = f"{metric.target.low:.0f}", f"{metric.target.high:.0f}"
    expected = low if low == high else f"{low} to {high}"
    return f"{text} A model that has never seen them would be right on about {expected} %."


def _proportion(evidence: Evidence) -> tuple[str, ...]:
    """Why the model was not retrained, with what both would cost as far as that is known."""
    cost = evidence.cost
    taken = None if cost is None else cost.request_seconds or cost.unlearning_seconds
    retraining = None if cost is None else cost.retraining_seconds
    share = _share(evidence.request.share)
    if taken is None or retraining is None:
        known = "" if taken is None else f", which took {_duration(taken)}"
        comparison = (
            f"How long that would take is not known to us, so that we cannot compare it with what "
            f"we did{known}. [Say why you did not train again.]"
        )
    elif retraining > 1.5 * taken:
        comparison = (
            f"On our machine that would take about {_duration(retraining)}, "
            f"{_times(retraining / taken)} as long as what we did, which took {_duration(taken)}."
        )
        if evidence.status in OUT_OF_PROPORTION:
            comparison += f" {OUT_OF_PROPORTION[evidence.status].format(share=share)}"
    else:
        more = "less" if retraining < taken else "hardly more"
        comparison = (
            f"On our machine that would take about {_duration(retraining)}, {more} than what "
            f"we did, which took {_duration(taken)}. [Say why you did not train again.]"
        )
    return (RETRAINING, comparison) if evidence.unlearned else (RETRAINING, comparison, REMAINS)


def _fingerprint(evidence: Evidence, fingerprint: str) -> str:
    signed = (
        "The record is signed as well."
        if evidence.signed_by
        else "The record is not signed: whoever can write to it could rewrite it, and only this "
        "fingerprint would show that."
    )
    return (
        f"The full technical record of this request has the fingerprint {fingerprint}. Keep this "
        f"letter: with it anybody can see whether the record was changed later. {signed}"
    )


def _share(fraction: float) -> str:
    """A share in percent, in as many digits as mean something.

    >>> _share(0.1), _share(0.00123), _share(0.000001)
    ('10 %', '0.12 %', 'less than 0.01 %')
    """
    return "less than 0.01 %" if fraction < 1e-4 else f"{100 * fraction:.2g} %"


def _records(count: int) -> str:
    return "one record" if count == 1 else f"{count:,} records"


def _duration(seconds: float) -> str:
    """A duration in words, in the unit that suits its size.

    >>> _duration(0.4), _duration(75), _duration(7300), _duration(200_000)
    ('less than a second', '75 seconds', '2.0 hours', '2.3 days')
    """
    if seconds < 1:
        return "less than a second"
    for limit, length, unit in UNITS:
        if seconds < limit:
            value = seconds / length
            return f"{value:.0f} {unit}" if value >= 10 or length == 1 else f"{value:.1f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def _date(when: str) -> str:
    try:
        day = datetime.fromisoformat(when)
    except ValueError:
        return when
    return f"{day.day} {day:%B %Y}"


def _times(ratio: float) -> str:
    """How many times as much, in as many digits as mean something.

    >>> _times(1.63), _times(12.4), _times(120.0)
    ('1.6 times', '12 times', '120 times')
    """
    return f"{ratio:.1f} times" if ratio < 10 else f"{float(f'{ratio:.2g}'):,.0f} times"
