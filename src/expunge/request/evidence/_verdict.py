"""Judge a request: its verdict, and what was and was not shown, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from expunge.request.calibrate._comparison import Comparison
from expunge.request.evidence._sections import (
    AttackRow,
    EarlierRequest,
    ExampleRow,
    Interval,
    MetricRow,
    RequestVerdict,
    Status,
    Stop,
)

AUDIT_PREFIX = "Against test data: "
"""How the audit's reasons begin."""
LIMITS = (
    "Nothing here proves that no trace is left: approximate unlearning is judged by what can be "
    "measured.",
    "The target is an estimate from unseen data of the same classes; no model was "
    "retrained. How much worse a retrained model would be for having less data is assumed, and the "
    "interval does not include that two trainings differ by chance.",
    "The attacks look at the whole forget set; an attacker with models trained for the purpose "
    "(U-LiRA, see `expunge audit`) may find single records that these attacks do not.",
    "Copies of the records elsewhere (backups, other models, logs) are not touched.",
)


def judge_request(
    *,
    stopped: Stop,
    records: int,
    metrics: Sequence[MetricRow],
    attacks: Sequence[AttackRow],
    examples: Sequence[ExampleRow],
    earlier: Sequence[EarlierRequest],
    held_out: Comparison,
    warnings: Sequence[str],
) -> RequestVerdict:
    """Status, headline, reasons, and what was and was not shown.

    ``held_out`` is the comparison with test data, which took no part in the run: a model that
    satisfied val has to pass it too. The attacks are reported but decide nothing by themselves, as
    some of six detect something by chance.
    """
    # Without a run that achieved its aim the model is the initial one, and nothing is new about it.
    run_achieved = stopped.status == "achieved"
    exposed_again = [request for request in earlier if request.status == "exposed again"]
    failed_audit = run_achieved and not held_out.indistinguishable
    status = "not achieved" if exposed_again or failed_audit else stopped.status

    # Why: the run's reason first, then what speaks against it.
    detected = [attack for attack in attacks if attack.after.verdict == "detected"]
    reasons = [stopped.reason, *map(_exposed_again, exposed_again)]
    if failed_audit:
        reasons += [f"{AUDIT_PREFIX}{reason}" for reason in held_out.reasons]
    if detected and run_achieved:
        names = ", ".join(attack.name for attack in detected)
        verb = "tells" if len(detected) == 1 else "tell"
        reasons.append(
            f"{len(detected)} of {len(attacks)} attacks {verb} the records from unseen data: "
            f"{names}. That decides nothing by itself: among six attacks, some detect something "
            "by chance."
        )
    reasons += warnings

    ua = next(metric for metric in metrics if metric.name == "ua")
    ta = next(metric for metric in metrics if metric.name == "ta")
    assert ua.target is not None
    return RequestVerdict(
        status=status,
        headline=_headline(status, records, ua, ua.target, ta, len(detected), len(attacks)),
        reasons=reasons,
        shown=_shown(ua, ua.target, ta, attacks, examples),
        not_shown=list(LIMITS),
    )


def _exposed_again(request: EarlierRequest) -> str:
    return (
        f"The records of request {request.number} stand out again: accuracy on them is "
        f"{request.ua.value:.1f} %, {request.target.low:.1f} to {request.target.high:.1f} % would "
        "be expected."
    )


def _headline(
    status: Status,
    records: int,
    ua: MetricRow,
    target: Interval,
    ta: MetricRow,
    detected: int,
    attacks: int,
) -> str:
    counted = f"{records} record{'s' if records != 1 else ''}"
    if status == "achieved":
        lost = ta.before.value - ta.after.value
        change = f"{lost:.1f} points lower" if lost > 0.05 else "no lower than before"
        return (
            f"The model treats the {counted} like data it never saw: it is right on "
            f"{ua.after.value:.1f} % of them, {target.value:.1f} % would be expected; "
            f"{detected or 'none'} of {attacks} attacks tell{'s' if detected < 2 else ''} them "
            f"from unseen data; test accuracy is {change}."
        )
    return (
        f"The {counted} were not forgotten to the required standard; the bundle holds the model "
        "as it was before the request."
    )


def _shown(
    ua: MetricRow,
    target: Interval,
    ta: MetricRow,
    attacks: Sequence[AttackRow],
    examples: Sequence[ExampleRow],
) -> list[str]:
    exposed = sum(example.flag == "still exposed" for example in examples)
    inside = "inside" if ua.after.value in target else "outside"
    verdicts = [attack.after.verdict for attack in attacks]
    counts = ", ".join(f"{verdicts.count(v)} {v}" for v in dict.fromkeys(verdicts))
    return [
        f"Accuracy on the forgotten records went from {ua.before.value:.1f} % to "
        f"{ua.after.value:.1f} %, {inside} the interval expected of a model that never saw them "
        f"({target.low:.1f} to {target.high:.1f} %).",
        f"Test accuracy went from {ta.before.value:.1f} % to {ta.after.value:.1f} % "
        f"[{ta.after.low:.1f}, {ta.after.high:.1f}].",
        f"Of {len(attacks)} membership attacks: {counts}.",
        f"{exposed} of {len(examples)} forgotten records stand out from unseen data one by one; "
        f"about {0.01 * len(examples):.0f} would by chance.",
    ]
