"""What to try next where a request was not achieved, or is inconclusive."""

from __future__ import annotations

from collections.abc import Sequence

from expunge._durations import format_duration
from expunge.evidence import Check, Cost, EarlierRequest, Status
from expunge.methods import METHODS
from expunge.request._job import DEFAULT_METHOD, TEXT_METHOD, Job
from expunge.request.verdict._sentences import EXPOSED_AGAIN


def suggest_next_steps(
    status: Status,
    job: Job,
    checks: Sequence[Check],
    *,
    earlier: Sequence[EarlierRequest] = (),
    cost: Cost,
    texts: bool = False,
) -> list[str]:
    """Concrete suggestions, in sentences; ``cost`` is the preflight's estimate."""
    if status == "achieved":
        return []
    exact = f"Train again without the records, which leaves no doubt: `--exact`{_seconds(cost)}."
    if status == "inconclusive":
        needed = max((c.needed for c in checks if c.needed is not None), default=None)
        size = "" if needed is None else f": about {needed:,} records would decide"
        return [
            "Use the unlearned model of the bundle: no check contradicts it.",
            f"Carry out several requests as one{size}.",
            exact,
        ]
    steps = []
    failed = {check.name for check in checks if check.result == "outside"}
    better = TEXT_METHOD if texts else DEFAULT_METHOD
    if METHODS.bare_name(job.method) != METHODS.bare_name(better):
        steps.append(f"Try another method: `--method {better}`.")
    elif not texts and any(name.startswith(("auc_", "accuracy")) for name in failed):
        steps.append("Keep less of the trained weights, and train longer: `--budget 0.33`.")
    if any(name.startswith("lost") for name in failed):
        steps.append("Train longer: `--budget 0.33`.")
    if exposed := [request.number for request in earlier if request.status == EXPOSED_AGAIN]:
        numbers = ", ".join(map(str, exposed))
        steps.append(
            f"Request these records together with those of request {numbers}, from the original "
            "weights and in another `--out`."
        )
    return [*dict.fromkeys(steps), exact]


def _seconds(cost: Cost) -> str:
    seconds = cost.retraining_seconds
    return "" if seconds is None else f", about {format_duration(seconds)} on this machine"
