"""Judge a request: its verdict, and what was and was not shown, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from expunge.request.calibrate._comparison import Comparison
from expunge.request.calibrate._power import FINEST, Power
from expunge.request.evidence._sections import (
    AttackRow,
    EarlierAttempt,
    EarlierRequest,
    FloorCheck,
    Interval,
    MetricRow,
    RequestVerdict,
    Status,
    Stop,
)

AUDIT_PREFIX = "Against test data: "
"""How the audit's reasons begin."""
EXPOSED_AGAIN = "exposed again"
NUMBERS = {4: "four", 6: "six"}
TOLD_APART = ("detected", "over-forgotten")
"""Verdicts of attacks that tell forgotten from unseen data, for whatever reason."""
LIMITS = (
    "Nothing here proves that no trace is left: approximate unlearning is judged by what can be "
    "measured.",
    "The target is an estimate from unseen data of the same classes; no model was "
    "retrained. How much worse a retrained model would be for having less data is assumed, and the "
    "interval does not include that two trainings differ by chance.",
    "The attacks look at the whole forget set; an attacker with models trained for the purpose "
    "(U-LiRA, see `expunge audit`) may find single records that these attacks do not.",
    "Val data chose the epoch, and one offset per class that keeps the classes balanced; test data "
    "took no part in either.",
    "Copies of the records elsewhere (backups, other models, logs) are not touched.",
)
GIVEN_WORDS = (
    "Other records about the same people are retained, and the unseen records are about strangers, "
    "whom a model repeats less well. So answers were compared without the words of their "
    "questions; how well the forgotten records' are repeated was set between the two, and not "
    "measured."
)
SHIFTED = (
    "Val and test can be told from each other, though the model was trained on neither: they were "
    "not collected alike. The records may differ from test by as much as val does; val counts more."
)


TEXT_LIMITS = (
    LIMITS[0],
    "The target is an estimate from unseen records of the same length and with as rare words; no "
    "model was retrained. How much worse a retrained model would be for having less data is "
    "assumed.",
    "Records count as independent of each other, which those about one person are not quite.",
    "The records were asked for in their own words. What the model says to other questions about "
    "the same facts, or in another language, was not measured.",
    "Of the membership attacks, those that need gradients or a reference model were not run; an "
    "attacker with models trained for the purpose may find single records.",
    LIMITS[-1],
)


def find_objections(
    stopped: Stop,
    earlier: Sequence[EarlierRequest],
    held_out: Comparison,
    floors: Sequence[FloorCheck],
) -> list[str]:
    """What speaks against a model that satisfied val, in sentences; any of it is decisive.

    ``held_out`` is the comparison with test data, which took no part in the run; ``floors`` is what
    was lost elsewhere. Without a run that achieved its aim the model is the initial one, and
    nothing is new about it.
    """
    objections = [_exposed_again(request) for request in earlier if request.status == EXPOSED_AGAIN]
    if stopped.status == "achieved":
        if not held_out.indistinguishable:
            objections += [f"{AUDIT_PREFIX}{reason}" for reason in held_out.reasons]
        objections += [_broken(check) for check in floors if check.broken]
    return objections


def decide_status(stopped: Stop, objections: Sequence[str], power: Power | None) -> Status:
    """The verdict on a run that ``stopped`` as val allowed; see :func:`judge_request`."""
    if stopped.status != "achieved" or objections or power is None:
        return "not achieved"
    return "achieved" if power.sufficient else "cannot be told"


def judge_request(
    *,
    stopped: Stop,
    records: int,
    metrics: Sequence[MetricRow],
    attacks: Sequence[AttackRow],
    exposed: int,
    objections: Sequence[str],
    power: Power | None,
    warnings: Sequence[str] = (),
    attempts: Sequence[EarlierAttempt] = (),
    seed: int = 0,
    texts: bool = False,
) -> RequestVerdict:
    """Status, headline, reasons, and what was and was not shown.

    A run that achieved its aim on val without ``objections`` has passed every test. That is an
    achievement if the tests had the ``power`` to notice a model that forgot nothing; it cannot be
    told otherwise. The attacks are reported but decide nothing by themselves, as some of six detect
    something by chance.
    """
    status = decide_status(stopped, objections, power)

    # Why: the run's reason first, then what speaks against it.
    reasons = [stopped.reason, *objections]
    if power is not None and not power.sufficient:
        reasons.append(_no_power(power, records))
    told_apart = [attack for attack in attacks if attack.after.verdict in TOLD_APART]
    if told_apart and stopped.status == "achieved":
        reasons.append(_detections(told_apart, len(attacks)))
    if attempts:
        reasons.append(_attempts(attempts, seed))
    reasons += warnings

    ua = next(metric for metric in metrics if metric.name == "ua")
    ta = next(metric for metric in metrics if metric.name == "ta")
    assert ua.target is not None
    not_shown = list(TEXT_LIMITS if texts else LIMITS)
    if status == "cannot be told":
        not_shown.insert(0, "That the records were forgotten: these tests cannot show it here.")
    return RequestVerdict(
        status=status,
        headline=_headline(
            status, records, ua, ua.target, ta, len(told_apart), len(attacks), power, texts
        ),
        reasons=reasons,
        objections=list(objections),
        shown=_shown(ua, ua.target, ta, attacks, exposed, records, power),
        not_shown=not_shown,
    )


def _exposed_again(request: EarlierRequest) -> str:
    return (
        f"The records of request {request.number} stand out again: accuracy on them is "
        f"{request.ua.value:.1f} %, {request.target.low:.1f} to {request.target.high:.1f} % would "
        "be expected."
    )


def _broken(check: FloorCheck) -> str:
    group = f"class {check.name}" if check.name else "all classes together"
    return (
        f"Something else broke: accuracy on the {check.records} {check.split} records of {group} "
        f"fell from {check.before:.1f} to {check.after:.1f} %, by {check.lost:.1f} points; chance "
        f"left aside by at least {check.low:.1f}, where {check.allowed:.1f} are allowed."
    )


def _no_power(power: Power, records: int) -> str:
    if power.coarse:
        return (
            f"Chance alone gives {records} record{'s' if records != 1 else ''} an AUC of up to "
            f"{min(0.5 + power.reach, 1.0):.2f} against unseen ones, and a test should notice "
            f"{0.5 + FINEST:.2f}: too few records to tell what is left of them."
        )
    return (
        f"A model that forgot nothing would have passed the same tests in "
        f"{power.draws - power.told_apart} of {power.draws} resamplings of its predictions: the "
        f"given model's memory of {'this record' if records == 1 else f'these {records} records'} "
        "hardly shows, so that passing says little."
    )


def _detections(told_apart: Sequence[AttackRow], attacks: int) -> str:
    names = ", ".join(
        attack.name + (" (over-forgotten)" if attack.after.verdict == "over-forgotten" else "")
        for attack in told_apart
    )
    verb = "tells" if len(told_apart) == 1 else "tell"
    return (
        f"{len(told_apart)} of {attacks} attacks {verb} the records from unseen data: {names}. "
        f"That decides nothing by itself: among {NUMBERS.get(attacks, attacks)} attacks, some "
        "detect something by chance."
    )


def _attempts(attempts: Sequence[EarlierAttempt], seed: int) -> str:
    earlier = "; ".join(
        f"{attempt.status} (seed {attempt.seed}, {attempt.when[:10]}, "
        + (f"request {attempt.request})" if attempt.request else "in another folder)")
        for attempt in attempts
    )
    return (
        f"This is attempt {len(attempts) + 1} (seed {seed}) to forget these records from this "
        f"model. Before: {earlier}. The best of several attempts looks better than it is."
    )


def _headline(
    status: Status,
    records: int,
    ua: MetricRow,
    target: Interval,
    ta: MetricRow,
    told_apart: int,
    attacks: int,
    power: Power | None,
    texts: bool,
) -> str:
    counted = f"{records} record{'s' if records != 1 else ''}"
    if status == "not achieved":
        return (
            f"The {counted} were not forgotten to the required standard; the bundle holds the "
            "model as it was before the request."
        )
    lost = ta.before.value - ta.after.value
    change = f"{lost:.1f} points lower" if lost > 0.05 else "no lower than before"
    if status == "cannot be told":
        why = "a model that forgot nothing would probably have passed the same tests"
        if power is not None and power.coarse:
            why = "so few records allow no test that would notice what is left of them"
        return (
            f"The {counted} {'was' if records == 1 else 'were'} unlearned and nothing else broke "
            f"(test accuracy is {change}), but whether "
            f"{'it is' if records == 1 else 'they are'} forgotten cannot be told: {why}. "
            f"{'The share of right tokens in' if texts else 'Accuracy on'} "
            f"{'it' if records == 1 else 'them'} was {ua.before.value:.1f} %, is "
            f"{ua.after.value:.1f} %, and {target.low:.1f} to {target.high:.1f} % would be "
            "expected; this many records do not allow more."
        )
    return (
        f"The model treats the {counted} like data it never saw: it is right on "
        f"{ua.after.value:.1f} % of {'their tokens' if texts else 'them'}, {target.value:.1f} % "
        "would be expected; "
        f"{told_apart or 'none'} of {attacks} attacks tell{'s' if told_apart < 2 else ''} them "
        f"from unseen data; test accuracy is {change}."
    )


def _shown(
    ua: MetricRow,
    target: Interval,
    ta: MetricRow,
    attacks: Sequence[AttackRow],
    exposed: int,
    records: int,
    power: Power | None,
) -> list[str]:
    verdicts = [attack.after.verdict for attack in attacks]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
    shown = [
        f"Accuracy on the forgotten records went from {ua.before.value:.1f} % to "
        f"{ua.after.value:.1f} %, {target.locate(ua.after.value)} the interval expected of a model "
        f"that never saw them ({target.low:.1f} to {target.high:.1f} %).",
        f"Test accuracy went from {ta.before.value:.1f} % to {ta.after.value:.1f} % "
        f"[{ta.after.low:.1f}, {ta.after.high:.1f}].",
        f"Of {len(attacks)} membership attacks: {counts}.",
        f"{exposed} of {records} forgotten records stand out from unseen data one by one; "
        f"about {0.01 * records:.0f} would by chance.",
    ]
    if power is not None and power.sufficient:
        how = (
            f"in {power.told_apart} of {power.draws} resamplings"
            if power.draws
            else f"it was {power.distance:.1f} times as far from unseen data as chance explains"
        )
        shown.append(f"The tests would have noticed a model that forgot nothing: {how}.")
    return shown
