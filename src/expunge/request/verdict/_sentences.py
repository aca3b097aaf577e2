"""The verdict of a request in sentences: what its checks add up to, and what to try next."""

from __future__ import annotations

import math
from collections.abc import Sequence

from expunge._durations import format_duration
from expunge.evidence import (
    Check,
    Cost,
    EarlierAttempt,
    EarlierRequest,
    EarlierStatus,
    MetricRow,
    RequestVerdict,
    Status,
    Stop,
)
from expunge.methods import METHODS
from expunge.request._job import DEFAULT_METHOD, REFRESH, TEXT_METHOD, Job

EXPOSED_AGAIN: EarlierStatus = "exposed again"
LIMITS = (
    "Nothing here proves that no trace is left: approximate unlearning is judged by what can be "
    "measured.",
    "The bounds hold for the attacks that were tried, over the forget set as a whole; an attacker "
    "with models trained for the purpose (U-LiRA, see `expunge audit`) may find single records "
    "that these attacks do not.",
    "No model was retrained to compare with, and two retrained models differ, too.",
    "Test data alone judge the model; they took no part in any decision of the run. After benign "
    "steps, ten of them per record are compared with the records, or as many as there are.",
    "Copies of the records elsewhere (backups, other models, logs) are not touched.",
)
EXACT_LIMIT = (
    "The records took no part in training the model again, so it learned nothing from them. It did "
    "learn from retained data that resemble them, and from the weights in `base`, if it started "
    "from any: whether those knew the records is not checked."
)
GIVEN_WORDS = (
    "Other records about the same people are retained, and the unseen records are about strangers, "
    "whom a model repeats less well. So answers were compared without the words of their "
    "questions."
)
TEXT_LIMITS = (
    LIMITS[0],
    "A tenth of the records was learnt again, which may bring back the rest, weights were rounded "
    "to 4 bits, and 16 answers to each question were sampled. Whoever has more of the records, or "
    "asks more often, may find more.",
    "Records count as independent of each other, which those about one person are not quite.",
    "The records were asked for in their own words. What the model says to other questions about "
    "the same facts, or in another language, was not measured.",
    "Of the membership attacks, those that need gradients or a reference model were not run; an "
    "attacker with models trained for the purpose may find single records.",
    LIMITS[-1],
)


def write_verdict(
    checks: Sequence[Check],
    metrics: Sequence[MetricRow],
    *,
    records: int,
    stopped: Stop,
    attack_before: Check | None = None,
    earlier: Sequence[EarlierRequest] = (),
    attempts: Sequence[EarlierAttempt] = (),
    judged_before: int | None = None,
    seed: int = 0,
) -> RequestVerdict:
    """What the checks add up to: status, headline, reasons, and what was shown.

    A run that changed nothing, or that exposed the records of an ``earlier`` request again, is also
    not achieved. ``attack_before`` is the loss attack on the model before the request.
    """
    exposed = [request for request in earlier if request.status == EXPOSED_AGAIN]
    status = decide(checks) if stopped.epoch and not exposed else "not achieved"
    reasons = [stopped.reason]
    reasons += [_sentence(check) for check in checks if check.result == "outside"]
    if status == "inconclusive":
        reasons += [_sentence(check) for check in _widest_open(checks)]
        if not any(check.is_attack for check in checks):
            reasons.append("Test has no example of the forgotten classes to compare with.")
    if status == "achieved" and attack_before is not None and attack_before.result == "inside":
        reasons.append(
            "The loss attack hardly told the records from unseen ones before the request either: "
            f"AUC {attack_before.value:.2f} [{attack_before.low:.2f}, {attack_before.high:.2f}]. "
            "How much was forgotten does not show there."
        )
    reasons += [_exposed_again(request) for request in exposed]
    if attempts:
        reasons.append(_attempts(attempts, seed))
    if judged_before is not None:
        reasons.append(
            f"Request {judged_before} judged and discarded the same model, bit for bit. What it "
            "measured was known when the margins of this request were set, which weakens them."
        )
    return RequestVerdict(
        status=status,
        headline=_headline(status, checks, metrics, records),
        reasons=[*reasons, *stopped.warnings],
        shown=_shown(checks, metrics),
    )


def decide(checks: Sequence[Check]) -> Status:
    """The verdict that the checks add up to; where no attack could be tried, it is open."""
    results = {check.result for check in checks}
    if "outside" in results:
        return "not achieved"
    tried = any(check.is_attack for check in checks)
    return "achieved" if tried and results == {"inside"} else "inconclusive"


def attack_bound(checks: Sequence[Check]) -> float | None:
    """Upper bound on the share of pairs that any attack orders correctly; None without attacks."""
    return max((c.right_at_most for c in checks if c.is_attack), default=None)


def _headline(
    status: Status, checks: Sequence[Check], metrics: Sequence[MetricRow], records: int
) -> str:
    counted = "The record" if records == 1 else f"The {records:,} records"
    was = "was" if records == 1 else "were"
    ta = next(metric for metric in metrics if metric.name == "ta")
    lost = ta.before.value - ta.after.value
    change = f"{lost:.1f} points lower" if lost > 0.05 else "no lower than before"
    bound = attack_bound(checks)
    states = "" if bound is None else _pairs(bound)
    if status == "achieved":
        return f"{counted} {was} forgotten: {states}; test accuracy is {change}."
    if status == "inconclusive":
        found = f" So far, {states}." if states else ""
        return (
            f"{counted} {was} unlearned, test accuracy is {change}, and no check failed; but there "
            f"are too few examples to tell whether all bounds lie within the margins.{found}"
        )
    return (
        f"{counted} {was} not forgotten within the margins; the bundle holds the model as it was "
        "before the request."
    )


def _pairs(bound: float) -> str:
    """What an AUC means."""
    return (
        f"no attack tried tells a forgotten record from an unseen one in more than "
        f"{100 * bound:.0f} % of pairs (50 % is chance), as delivered and after further training"
    )


def _widest_open(checks: Sequence[Check]) -> list[Check]:
    """Of the open checks of a kind, at either moment, the one that needs most to be decided."""
    widest: dict[tuple[str, str], Check] = {}
    for check in (check for check in checks if check.result == "open"):
        kind = check.name.partition("_")[0], check.moment
        other = widest.setdefault(kind, check)
        if (check.needed or math.inf) > (other.needed or math.inf):
            widest[kind] = check
    return list(widest.values())


def _sentence(check: Check) -> str:
    """One check in a sentence: the value, its bounds, the margin, and what would decide."""
    digits, unit = (2, "") if check.is_attack else (1, f" {check.unit}")
    value, low, high, margin = (
        f"{number:.{digits}f}" for number in (check.value, check.low, check.high, check.margin)
    )
    label = check.label
    if check.is_attack:
        label, margin = f"AUC of the attack that {label}", f"{1.0 - check.margin:.2f} to {margin}"
    text = f"{label[:1].upper()}{label[1:]}, {check.moment}: {value}{unit} [{low}, {high}], margin"
    words = str(check.result)
    if check.result == "open" and check.needed is not None:
        words += f": {check.needed:,} records would decide"
    return f"{text} {margin} ({words})."


def _exposed_again(request: EarlierRequest) -> str:
    area = "" if request.check is None else f", AUC of the loss attack {request.check.value:.2f}"
    return (
        f"The records of request {request.number} stand out again: accuracy on them is "
        f"{request.ua.value:.1f} %{area}."
    )


def _attempts(attempts: Sequence[EarlierAttempt], seed: int) -> str:
    earlier = "; ".join(
        f"{attempt.status} ({attempt.shared:,} of them, seed {attempt.seed}, {attempt.when[:10]}, "
        f"request {attempt.request})"
        for attempt in attempts
    )
    return (
        f"This is attempt {len(attempts) + 1} (seed {seed}) to forget records of this request "
        f"from this model. Before: {earlier}. A result that took several attempts is weaker "
        "evidence."
    )


def _shown(checks: Sequence[Check], metrics: Sequence[MetricRow]) -> list[str]:
    ua, ta = (next(m for m in metrics if m.name == name) for name in ("ua", "ta"))
    change = f"from {ua.before.value:.1f} % to {ua.after.value:.1f} %"
    if ua.target is not None:
        change += f"; on unseen data alike it is {ua.target.value:.1f} %"
    if ua.after_benign_steps is not None:
        change += f"; after benign steps {ua.after_benign_steps.value:.1f} %"
    shown = [
        f"Accuracy on the records went {change}.",
        f"Test accuracy went from {ta.before.value:.1f} % to {ta.after.value:.1f} % "
        f"[{ta.after.low:.1f}, {ta.after.high:.1f}].",
    ]
    if (bound := attack_bound(checks)) is not None:
        shown.append(f"With 95 % confidence, {_pairs(bound)}.")
    results = [check.result for check in checks]
    counts = ", ".join(f"{results.count(r)} {r}" for r in dict.fromkeys(results))
    return [*shown, f"Of {len(checks)} checks: {counts}."]


def suggest_next_steps(
    status: Status,
    job: Job,
    checks: Sequence[Check],
    *,
    earlier: Sequence[EarlierRequest] = (),
    cost: Cost,
    texts: bool = False,
    too_small: bool = False,
) -> list[str]:
    """Suggestions, in sentences; ``too_small`` are data without as many records as would decide."""
    if status == "achieved":
        return []
    exact = "Train again without the records, which leaves no doubt: `--exact`"
    if cost.retraining_seconds is not None:
        exact += f", about {format_duration(cost.retraining_seconds)} on this machine"
    exact += "."
    if texts:
        exact += " A model that was fine-tuned starts from its checkpoint: `--exact --base FILE`."
    failed = {check.name for check in checks if check.result == "outside"}
    recognised = any(name.startswith(("auc_", "accuracy")) for name in failed)
    last = [exact]
    if job.exact:
        copies = "The model was trained without the records: look for copies in the retained data."
        last = [copies] if recognised else []
    if status == "inconclusive":
        needed = max((c.needed for c in checks if c.needed is not None), default=None)
        size = "" if needed is None else f": about {needed:,} records would decide"
        several = f"Carry out several requests as one{size}."
        if too_small:
            several = "This data set is too small to decide at these margins."
        return [
            "Use the unlearned model of the bundle: no check contradicts it.",
            several,
            *last,
        ]
    steps = []
    method, better = METHODS.bare_name(job.method), TEXT_METHOD if texts else DEFAULT_METHOD
    if not job.exact:
        if method != METHODS.bare_name(better):
            steps.append(f"Try another method: `--method {better}`.")
        elif not texts and recognised:
            steps.append("Keep less of the trained weights, and train longer: `--budget 0.33`.")
        if method == REFRESH and any(name.startswith("lost") for name in failed):
            steps.append("Train longer: `--budget 0.33`.")
    if exposed := [request.number for request in earlier if request.status == EXPOSED_AGAIN]:
        numbers = ", ".join(map(str, exposed))
        steps.append(
            f"Request these records together with those of request {numbers}, from the original "
            "weights and in another `--out`."
        )
    return [*dict.fromkeys(steps), *last]
