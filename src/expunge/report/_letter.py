"""The letter to the person who asked: what was done and measured, in words for everybody."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from expunge._durations import format_duration
from expunge.report._formatting import date_and_time
from expunge.report._page import templates

if TYPE_CHECKING:
    from expunge.evidence import Check, CheckResult, Evidence, MetricRow

IN_ONE_SENTENCE = {
    "achieved": "As far as we can measure, the model now treats these records like data that it "
    "has never seen.",
    "not achieved": "Our attempt to remove these records from the model did not succeed, and the "
    "model is as it was before.",
    "inconclusive": "There is too little data to measure whether the model still knows these "
    "records.",
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
    "achieved": "It would have to be repeated for every request like this. By our measurements, "
    "the model already treats these records like data that it has never seen, so training again "
    "would change little. We therefore consider that effort disproportionate. [Check that "
    "this is your reason, or give yours.]",
    "inconclusive": "It would have to be repeated for every request like this, here for {share} "
    "of the data. It would leave no doubt where our measurements leave one. None of them "
    "contradicts what we did, so we consider that effort disproportionate. [Check that this is "
    "your reason, or give yours.]",
}
"""Why training again is not called for, where it would take much longer."""
REMAINS = (
    "As our attempt did not succeed, training again is what remains. [Say whether and when you "
    "will do it.]"
)
FAILED = {
    "auc_": "There was a way to tell one of these records from data that {model} has never seen: "
    "it was right in at least {least} of 100 pairs. Guessing gives 50, and we allowed {margin}.",
    "accuracy": "On these records, {model} was not right about as often as on data that it has "
    "never seen.",
    "lost": "On other data, {model} was worse than we allow.",
}
OPEN = {
    "auc_": "Whether each of these ways is right in at most {margin} of 100 pairs, which we set as "
    "the limit beforehand, is open: {few}",
    "accuracy": "Whether the model is right on these records about as often as on data that it has "
    "never seen is open: {few}",
    "lost": "Whether the model is about as good on other data as before is open: we have too few "
    "examples to measure that.",
}
"""What it means that checks failed or are open, by how their names start."""
NOTHING_ALIKE = (
    "Whether the model still knows these records is open: we have no other data of their kind to "
    "compare them with."
)
UNITS = {"s": "seconds", "min": "minutes", "h": "hours"}


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
        date=date_and_time(request.when).partition(",")[0],
        result=status,
        summary=IN_ONE_SENTENCE[status],
        sections=sections,
    )


def _asked(evidence: Evidence) -> tuple[str, ...]:
    request = evidence.request
    ids_are_people = bool(evidence.config.get("id_column"))
    if request.ids == 1:
        who, whose = "You asked", ""
    elif ids_are_people:
        who, whose = f"You and others, {request.ids:,} in all, asked", ", yours among them,"
    else:
        who, whose = "We were asked", ""
    text = (
        f"{who} that {_records(request.records)}{whose} be removed from what our model has "
        f"learned: {_share(request.share)} of all the data that it learned from."
    )
    if copies := request.copies.exact + request.copies.near:
        text += f" {copies} of them are copies that we found and counted in."
    if request.unseen:
        text += (
            f" The data that we test the model with, which it did not learn from, also hold "
            f"{_records(request.unseen)} of those who asked, now or before. We compared "
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
    attacks = [check for check in evidence.checks if check.is_attack]
    if attacks and evidence.unlearned:
        ways = len({check.name for check in attacks})
        bound = _of_100(max(check.right_at_most for check in attacks))
        points.append(
            f"We tried {ways} ways to tell, from the model's answers, one of these records from "
            f"data that the model has never seen. None of them is right in more than {bound} of "
            "100 pairs (we are 95 % certain); guessing gives 50."
        )
        if len(attacks) > ways:
            points[-1] += f" {ALSO_OF_THE_COPY}"
    if evidence.status == "not achieved":
        points += _results(evidence, "outside", FAILED)
        if any(request.status == "exposed again" for request in evidence.earlier):
            points.append("Records of an earlier request were recognisable again.")
    elif evidence.status == "inconclusive":
        points += [] if attacks else [NOTHING_ALIKE]
        points += _results(evidence, "open", OPEN)
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


def _results(evidence: Evidence, result: CheckResult, words: Mapping[str, str]) -> list[str]:
    """What the checks with a result mean."""
    points = []
    for name, text in words.items():
        found = [c for c in evidence.checks if c.result == result and c.name.startswith(name)]
        if not found:
            continue
        least = max(max(check.low, 1.0 - check.high) for check in found)
        points.append(
            text.format(
                model="the changed model" if evidence.discarded else "the model",
                least=math.floor(round(100 * least, 6)),
                margin=_of_100(found[0].margin),
                few=_too_few(found),
            )
        )
    return points


def _too_few(checks: Sequence[Check]) -> str:
    records, needed = checks[0].records, [check.needed or 0 for check in checks]
    text = f"{_records(records)} {'is' if records == 1 else 'are'} too few to measure that."
    return f"{text} About {max(needed):,} would be enough." if all(needed) else text


def _of_100(share: float) -> int:
    """A share of pairs as a number of 100, rounded up."""
    return math.ceil(round(100 * share, 6))


def _proportion(evidence: Evidence) -> tuple[str, ...]:
    """Why the model was not retrained, with what both would cost as far as that is known."""
    taken = None if evidence.seconds is None else evidence.seconds.wall.total
    retraining = evidence.preflight.cost.retraining_seconds
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

    >>> _duration(75), _duration(7300), _duration(200_000)
    ('75 seconds', '2.0 hours', '2.3 days')
    """
    value, _, unit = format_duration(seconds).partition(" ")
    return f"{value} {UNITS.get(unit, unit)}"


def _times(ratio: float) -> str:
    """How many times as much, in as many digits as mean something.

    >>> _times(1.63), _times(12.4), _times(120.0)
    ('1.6 times', '12 times', '120 times')
    """
    return f"{ratio:.1f} times" if ratio < 10 else f"{float(f'{ratio:.2g}'):,.0f} times"
