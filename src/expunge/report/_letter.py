"""The letter to the person who asked: what was done and measured, in words for everybody."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from expunge.report._page import templates

if TYPE_CHECKING:
    from expunge.request.evidence._schema import Evidence
    from expunge.request.evidence._sections import Check, MetricRow

IN_ONE_SENTENCE = {
    "achieved": "As far as we can measure, the model now treats these records like data that it "
    "has never seen.",
    "not achieved": "Our attempt to remove these records from the model did not succeed, and the "
    "model is as it was before.",
    "inconclusive": "We changed the model so that it should no longer know these records, but "
    "there is too little data to measure whether it still does.",
}
DONE = {
    "exact": "We trained the model again, without these records.",
    "refresh": "We mixed what the model had learned with random values, and then trained it on the "
    "data that it may keep. These records took no part in that.",
    "": "We changed the model so that its answers for these records become like its answers for "
    "data that it has never seen, and kept the rest of what it had learned.",
}
"""What was done, by the method; the last one if it is neither of the others."""
DISCARDED = (
    "The result did not pass all of our checks, so we did not keep it, and the model is the one "
    "from before."
)
STILL_CARRIES = "It still carries what it learned from these records."
UNCHANGED_IN_ONE_SENTENCE = (
    "The model is as it was, and there is too little data to measure whether it knows these "
    "records."
)
UNCHANGED = (
    "No change made these records look more like data that the model has never seen, so the model "
    "is as it was."
)
ALSO_OF_THE_COPY = (
    "That also holds for the copy that we trained further, which can bring back what a model only "
    "seemed to have forgotten."
)
SEVERAL_ATTEMPTS = "With several attempts, a good result is more likely to be luck."
NOT_SHOWN = (
    "This does not prove that nothing is left of these records: we can only measure what the model "
    "does.",
    "We compared these records with other data that the model has never seen, not with a model "
    "that has never seen these records.",
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
DISPROPORTIONATE = {
    "achieved": "It would have to be repeated for every request like yours. By our measurements, "
    "the model already treats your records like data that it has never seen, so training again "
    "would change little for you. We therefore consider that effort disproportionate. [Check that "
    "this is your reason, or give yours.]",
    "inconclusive": "It would have to be repeated for every request like yours, here for {share} "
    "of the data. It would leave no doubt where our measurements leave one. None of them "
    "contradicts what we did, so we consider that effort disproportionate. [Check that this is "
    "your reason, or give yours.]",
}
"""Why training again is not called for, where it would take much longer."""
REMAINS = (
    "As our attempt did not succeed, training again is what remains. [Say whether and when you "
    "will do it.]"
)
UNITS = ((120, 1, "seconds"), (7_200, 60, "minutes"), (172_800, 3_600, "hours"))
"""For durations below so many seconds: the unit's length in seconds, and its name."""


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
    sections = [
        Section("What was asked", _asked(evidence)),
        Section("What we did", _done(evidence)),
        Section("What we measured", _measured(evidence), as_list=True),
        Section("What this does not show", NOT_SHOWN, as_list=True),
        Section("Where copies can remain", (COPIES,)),
        Section("Why the model was not trained again", _proportion(evidence)),
        Section("Questions", (CONTACT, _fingerprint(evidence, fingerprint))),
    ]
    if evidence.config.get("exact"):
        sections = [s for s in sections if not s.heading.startswith("Why the model was not")]
    return template.render(
        number=request.number,
        date=_date(request.when),
        result=status,
        summary=UNCHANGED_IN_ONE_SENTENCE
        if status == "inconclusive" and not evidence.stopped.epoch
        else IN_ONE_SENTENCE[status],
        sections=sections,
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
    method = "exact" if evidence.config.get("exact") else str(evidence.config.get("method", ""))
    known = [text for name, text in DONE.items() if name and method.startswith(name)]
    done = known[0] if known else DONE[""]
    if not evidence.stopped.epoch:
        done = UNCHANGED
    elif evidence.discarded:
        done += f" {DISCARDED}"
    if not evidence.unlearned:
        done += f" {STILL_CARRIES}"
    if evidence.request.attempt > 1:
        done += f" This was attempt {evidence.request.attempt}."
        if evidence.unlearned:
            done += f" {SEVERAL_ATTEMPTS}"
    return (done,)


def _measured(evidence: Evidence) -> tuple[str, ...]:
    metrics = {metric.name: metric for metric in evidence.metrics}
    points = []
    if "ua" in metrics:
        points.append(_on_the_records(metrics["ua"], evidence))
    if "ta" in metrics:
        points.append(_on_other_data(metrics["ta"], evidence))
    if not evidence.unlearned:
        return (*points, *_failed(evidence))
    attacks = [check for check in evidence.checks if check.is_attack]
    if attacks:
        ways = len({check.name for check in attacks})
        bound = _of_100(max(check.right_at_most for check in attacks))
        points.append(
            f"We tried {ways} ways to tell, from the model's answers, one of your records from "
            f"data that the model has never seen. None of them is right in more than {bound} of "
            "100 pairs (we are 95 % certain); guessing gives 50."
        )
        if len(attacks) > ways:
            points[-1] += f" {ALSO_OF_THE_COPY}"
    if evidence.status == "inconclusive":
        points += _open(evidence)
    return tuple(points)


def _on_the_records(metric: MetricRow, evidence: Evidence) -> str:
    """How often the model is right on the records, and the discarded one if there is one."""
    before, after = metric.before.value, metric.after.value
    what = "the words in these records" if evidence.texts else "these records"
    verb = "was" if evidence.discarded else "is"
    if evidence.discarded:
        text = (
            f"The model, which is the one from before, is right on {before:.0f} % of {what}. The "
            f"changed model, which we did not keep, was right on {after:.0f} %"
        )
    elif evidence.stopped.epoch:
        text = f"Before, the model was right on {before:.0f} % of {what}. Now it is right on "
        text += f"{after:.0f} %"
    else:
        text = f"The model is right on {after:.0f} % of {what}"
    if metric.relearned is not None:
        text += f"; a copy that we trained further on other data {verb} right on "
        text += f"{metric.relearned.value:.0f} %"
    if metric.target is not None:
        text += f". On data like them that it has never seen, it {verb} right on "
        text += f"{metric.target.value:.0f} %"
    return f"{text}."


def _on_other_data(metric: MetricRow, evidence: Evidence) -> str:
    before, after = metric.before.value, metric.after.value
    cases = "words" if evidence.texts else "cases"
    if evidence.discarded:
        now = (
            f"is right in {before:.0f} % of all {cases}; the changed one was right in {after:.0f} %"
        )
    else:
        now = f"was right in {before:.0f} % of all {cases} before, and is in {after:.0f} % now"
    return f"On other data, which it has never seen, the model {now}."


def _failed(evidence: Evidence) -> list[str]:
    """Which checks were not passed."""
    failed = [check for check in evidence.checks if check.result == "outside"]
    model = "the changed model" if evidence.discarded else "the model"
    points = []
    if attacks := [check for check in failed if check.is_attack]:
        right = max(max(check.low, 1.0 - check.high) for check in attacks)
        points.append(
            f"There was a way to tell one of your records from data that {model} has never seen: "
            f"it was right in at least {math.floor(round(100 * right, 6))} of 100 pairs. Guessing "
            f"gives 50, and we allowed {_of_100(attacks[0].margin)}."
        )
    reasons = {
        "was not right on these records about as often as on data that it has never seen": any(
            check.name == "accuracy" for check in failed
        ),
        "was worse on other data than we allow": any(
            check.name.startswith("lost") for check in failed
        ),
        "knew records of an earlier request again": any(
            request.status == "exposed again" for request in evidence.earlier
        ),
    }
    name = model[:1].upper() + model[1:]
    return points + [f"{name} {words}." for words, applies in reasons.items() if applies]


def _open(evidence: Evidence) -> list[str]:
    """Which questions are open, and what would answer them."""
    checks = [check for check in evidence.checks if check.result == "open"]
    points = []
    if not any(check.is_attack for check in evidence.checks):
        points.append(
            "Whether the model still knows these records is open: we have no other data of their "
            "kind to compare them with."
        )
    if attacks := [check for check in checks if check.is_attack]:
        points.append(
            "Whether each of these ways is right in at most "
            f"{_of_100(attacks[0].margin)} of 100 pairs, which we set as the limit beforehand, is "
            f"open: {_too_few(attacks)}"
        )
    if accuracy := [check for check in checks if check.name == "accuracy"]:
        points.append(
            "Whether the model is right on these records about as often as on data that it has "
            f"never seen is open: {_too_few(accuracy)}"
        )
    if any(check.name.startswith("lost") for check in checks):
        points.append(
            "Whether the model is about as good on other data as before is open: we have too few "
            "examples to measure that."
        )
    return points


def _too_few(checks: Sequence[Check]) -> str:
    records = _records(checks[0].records)
    text = f"{records} {'is' if checks[0].records == 1 else 'are'} too few to measure that."
    needed = [check.needed for check in checks]
    known = [count for count in needed if count is not None]
    if len(known) == len(needed):
        text += f" About {max(known):,} would be enough."
    return text


def _of_100(share: float) -> int:
    """A share of pairs as a number of 100, rounded up."""
    return math.ceil(round(100 * share, 6))


def _proportion(evidence: Evidence) -> tuple[str, ...]:
    """Why the model was not retrained, with what both would cost as far as that is known."""
    cost = evidence.cost
    taken = None if cost is None else cost.request_seconds or cost.unlearning_seconds
    retraining = None if cost is None else cost.retraining_seconds
    share = _share(evidence.request.share)
    if taken is None or retraining is None:
        known = "" if taken is None else f", which took {_duration(taken)}"
        comparison = (
            "We do not know how long that would take, so we cannot compare it with what we "
            f"did{known}. [Say why you did not train again.]"
        )
    elif retraining > 1.5 * taken:
        comparison = (
            f"On our machine that would take about {_duration(retraining)}, "
            f"{_times(retraining / taken)} as long as what we did, which took {_duration(taken)}."
        )
        if evidence.status in DISPROPORTIONATE:
            comparison += f" {DISPROPORTIONATE[evidence.status].format(share=share)}"
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
