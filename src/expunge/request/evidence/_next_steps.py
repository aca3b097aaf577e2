"""What to try next where a request was not achieved, or where that cannot be told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from expunge._durations import format_duration
from expunge.methods import METHODS
from expunge.request._job import TEXT_METHOD, Job
from expunge.request.evidence._sections import EarlierRequest, FloorCheck, Status

MOST_SUCCESSFUL = "match-unseen"
"""The method that achieved the most requests where they could be judged by retrained models."""
SHADOWS = 16
"""Shadow models of the test per record."""
AFFORDABLE = 24 * 3600.0
"""Seconds that shadow models may take to be offered."""

_MORE_RECORDS = (
    "Use the unlearned model of the bundle: it did the work, and no test speaks against it.",
    "Carry out several requests as one: more records allow a verdict on all of them together.",
)


def suggest_next_steps(
    status: Status,
    job: Job,
    *,
    arrived: bool,
    audit_failed: bool,
    rows: Sequence[Mapping[str, Any]],
    unseen_of_classes: Mapping[str, int],
    floors: Sequence[FloorCheck] = (),
    earlier: Sequence[EarlierRequest] = (),
    cost: Mapping[str, Any],
    number: int,
    has_card: bool,
    texts: bool = False,
) -> list[str]:
    """Concrete suggestions, in sentences.

    Args:
        arrived: whether the run satisfied val.
        audit_failed: whether test data then told the records apart.
        rows: the epochs that were looked at, as :class:`CalibrationResult` has them.
        unseen_of_classes: records of the forgotten classes in ``val`` and in ``test``.
        cost: the preflight's estimate.
        has_card: whether the weights say how the model was trained.
        texts: whether it is a language model.
    """
    if status == "achieved":
        return []
    if texts:
        if status == "cannot be told":
            return [*_MORE_RECORDS, _retraining(cost)]
        return [*_for_texts(job, rows, unseen_of_classes, audit_failed), _retraining(cost)]
    if status == "cannot be told":
        return _more_evidence(job, cost, number, has_card=has_card)
    steps = []
    if not arrived:
        steps += _other_method(job)
        if rows and rows[-1]["epoch"] == job.procedure.epochs:
            steps.append(f"Allow more epochs: `--max-epochs {2 * job.procedure.epochs}`.")
        steps.append(
            f"Allow a larger loss of accuracy: `--floor {max(2.0 * job.floor, 1.0):g}`, if the "
            "model may become that much worse."
        )
    if audit_failed:
        steps.append(
            f"Give more validation data: the run was steered by {unseen_of_classes['val']} "
            "validation records of the forgotten classes, the audit saw "
            f"{unseen_of_classes['test']} test records."
        )
    if broken := [check for check in floors if check.broken]:
        floor = max(check.low - check.allowed for check in broken) + job.floor
        steps += _other_method(job)
        steps.append(
            f"Allow a larger loss: `--floor {math.ceil(10 * floor) / 10:g}` would have been enough "
            "for this model, if it may become that much worse."
        )
    if exposed := [request.number for request in earlier if request.status == "exposed again"]:
        numbers = ", ".join(map(str, exposed))
        steps.append(
            f"Request these records together with those of request {numbers}, from the original "
            "weights and in another `--out`."
        )
    return [*dict.fromkeys(steps), _retraining(cost)]


def _for_texts(
    job: Job, rows: Sequence[Mapping[str, Any]], unseen: Mapping[str, int], audit_failed: bool
) -> list[str]:
    """How else to go about a language model."""
    if audit_failed:
        return [
            f"Give more unseen records: the run was watched on {unseen['val']}, the audit saw "
            f"{unseen['test']}."
        ]
    steps = []
    epochs = max([job.procedure.epochs, *(row["epoch"] for row in rows)])
    if any(row["action"] for row in rows):
        steps.append(
            f"Weigh what is retained more, as epochs broke something: `--alpha {job.alpha / 2:g} "
            f"--max-epochs {2 * epochs}`."
        )
    if rows and rows[-1]["ua"] > rows[-1]["target_high"]:
        steps.append(
            "Go further, as the last epoch had not arrived yet: `--max-epochs "
            f"{2 * epochs}`, or in larger steps, `--lr {3 * job.procedure.lr:.1g}`."
        )
    else:
        steps.append(
            "Go in smaller steps, so that no epoch passes by the point: `--lr "
            f"{job.procedure.lr / 3:.1g} --max-epochs {3 * epochs}`."
        )
    return [*steps, *_other_method(job, TEXT_METHOD)]


def _other_method(job: Job, better: str = MOST_SUCCESSFUL) -> list[str]:
    if METHODS.bare_name(job.method) == better:
        return []
    return [f"Try another method: `--method {better}`."]


def _retraining(cost: Mapping[str, Any]) -> str:
    seconds = cost.get("retraining_seconds")
    if not isinstance(seconds, (int, float)):
        return (
            "Retrain without the records, which leaves no doubt; its cost is not known here. "
            "`--training-epochs` would tell."
        )
    return (
        "Retrain without the records, which leaves no doubt: about "
        f"{format_duration(float(seconds))} on this machine. {cost.get('note', '')}".strip()
    )


def _more_evidence(job: Job, cost: Mapping[str, Any], number: int, *, has_card: bool) -> list[str]:
    steps = list(_MORE_RECORDS)
    seconds = cost.get("retraining_seconds")
    if not has_card or not isinstance(seconds, (int, float)):
        steps.append(
            "A test of every single record needs shadow models (`expunge audit --shadows`), and "
            "weights that say how the model was trained, as those of `expunge train` do."
        )
    elif SHADOWS * seconds > AFFORDABLE:
        steps.append(
            f"A test of every single record needs {SHADOWS} shadow models (`expunge audit "
            f"--shadows`), about {format_duration(SHADOWS * seconds)} of training here."
        )
    else:
        steps.append(
            f"Test every single record with {SHADOWS} shadow models, about "
            f"{format_duration(SHADOWS * seconds)} of training: `expunge unlearn {job.weights} "
            f"--method {job.method} --forget ids:FILE -o unlearned.safetensors`, then `expunge "
            f"audit unlearned.safetensors --initial {job.weights} --shadows {SHADOWS} -o audit`."
        )
    return [*steps, _retraining(cost)]
