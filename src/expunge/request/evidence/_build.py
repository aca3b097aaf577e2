"""Put the evidence of a request together from what its parts found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from expunge.evaluation import predict
from expunge.request._ids import RequestedRecords
from expunge.request._job import Job
from expunge.request._job_file import repeat_commands
from expunge.request._ledger import Ledger, digest_config
from expunge.request.calibrate._comparison import compare
from expunge.request.calibrate._run import CalibrationResult
from expunge.request.calibrate._target import Target, estimate_target
from expunge.request.evidence._attacks import attack_rows
from expunge.request.evidence._examples import example_rows
from expunge.request.evidence._rows import (
    FORMAT,
    Seen,
    accuracy,
    class_rows,
    metric_rows,
    plain,
    score_lists,
    warnings_of,
)
from expunge.request.evidence._verdict import LIMITS, verdict_of
from expunge.request.preflight._check import Preflight
from expunge.request.subject._load import Subject
from expunge.store._environment import environment, now


@dataclass(frozen=True)
class Case:
    """A request: what was asked of which model, after which others."""

    job: Job
    subject: Subject
    asked: RequestedRecords
    ledger: Ledger
    config: Mapping[str, Any]
    in_memory: bool = False

    @property
    def number(self) -> int:
        """Its place in the ledger, from 1."""
        return len(self.ledger.entries) + 1


def assemble(
    case: Case,
    checked: Preflight,
    chosen: Sequence[int],
    calibrated: CalibrationResult,
    before: Seen,
    after: Seen,
) -> dict[str, Any]:
    """Everything but the times and the hashes of files: see ``docs/requests.md``."""
    job, subject = case.job, case.subject
    target = _plain_target(calibrated.target)
    metrics = metric_rows(before, after, target, job.level)
    attacks = attack_rows(before, after, job.level, job.seed)
    owners = {i: name for name, own in case.asked.by_id.items() for i in own}
    names = [owners.get(i, subject.names[i] if subject.names else str(i)) for i in chosen]
    images = getattr(subject.train.subset(list(chosen)), "images", None)
    examples = example_rows(chosen, names, subject.classes, before, after, images)
    earlier = earlier_rows(case, calibrated, chosen)
    unused = compare(
        after.forget,
        after.test,
        calibrated.target,
        level=job.level,
        seed=job.seed,
        val_name="test",
    )
    warnings = list(calibrated.warnings)
    if calibrated.stopped.status == "achieved":
        warnings += warnings_of(after, job.seed)
    verdict = verdict_of(
        status=calibrated.stopped.status,
        reason=calibrated.stopped.reason,
        records=len(chosen),
        metrics=metrics,
        attacks=attacks,
        examples=examples,
        earlier=earlier,
        held_out=unused,
        warnings=warnings,
    )
    last = case.ledger.last
    cost = checked.as_dict()["cost"]
    return {
        "format": FORMAT,
        "kind": "request",
        "verdict": verdict,
        "request": {
            "number": case.number,
            "ids": len(case.asked.ids),
            "records": len(chosen),
            "copies": _copies(checked, job, chosen),
            "share": round(len(chosen) / len(subject.train), 6),
            "source": str(job.ids) if job.ids else "given in Python",
            "when": now(),
            "previous": None if last is None else last.digest,
        },
        "hashes": {
            "weights_before": subject.weights_digest,
            "data": subject.data_digest,
            "ids": case.asked.digest,
            "config": digest_config(case.config),
        },
        "config": dict(case.config),
        "environment": environment(),
        "seeds": {"run": job.seed, "data": job.data_seed},
        "preflight": checked.as_dict(),
        "target": target,
        "metrics": metrics,
        "epochs": [_finite(row) for row in calibrated.epochs],
        "stopped": {
            "epoch": calibrated.stopped.epoch,
            "reason": calibrated.stopped.reason,
            "status": calibrated.stopped.status,
            "share": calibrated.stopped.share,
        },
        "steps": _columns(calibrated.history.steps),
        "attacks": attacks,
        "held_out": _tree(unused.as_dict()),
        "scores": score_lists(before, after),
        "classes": class_rows(subject.classes, after.forget.labels, before.val, after.val),
        "examples": examples,
        "cost": _cost(cost, calibrated),
        "earlier": earlier,
        "limits": list(LIMITS),
        "commands": repeat_commands(job, case.number, in_memory=case.in_memory),
    }


def earlier_rows(
    case: Case, calibrated: CalibrationResult, chosen: Sequence[int]
) -> list[dict[str, Any]]:
    """The records of earlier requests under the new model: they must stay forgotten."""
    gone = {*chosen, *(i for own in case.ledger.forgotten.values() for i in own)}
    rows = []
    train: Any = case.subject.train
    val = predict(calibrated.model, case.subject.val)
    retained = train.labels[[i for i in range(len(train)) if i not in gone]]
    for entry in case.ledger.entries:
        said = predict(calibrated.model, train.subset(list(entry.indices)))
        target = estimate_target(val, said.labels, retained, level=case.job.level)
        behaviour = compare(said, val, target, level=case.job.level, seed=case.job.seed)
        status = "was not achieved"
        if entry.achieved:
            again = behaviour.ua > target.accuracy.high
            status = "exposed again" if again else "still forgotten"
        rows.append(
            {
                "number": entry.number,
                "records": len(entry.indices),
                "ua": accuracy(said, case.job.level),
                "target": plain(target.accuracy),
                "status": status,
            }
        )
    return rows


def _copies(checked: Preflight, job: Job, chosen: Sequence[int]) -> list[list[Any]]:
    """The copies forgotten along, each as index, kind, the record it is a copy of, similarity."""
    taken = checked.duplicates.to_include(job.include_duplicates)
    exact = {copy.index for copy in checked.duplicates.to_include("exact")}
    return [
        [c.index, "exact" if c.index in exact else "near", c.forgotten, round(c.similarity, 6)]
        for c in taken
        if c.index in set(chosen)
    ]


def _plain_target(target: Target) -> dict[str, Any]:
    notes = {"n_val": target.n_val, "n_forget": target.n_forget, "notes": list(target.notes)}
    return plain(target.accuracy) | notes


def _columns(steps: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    first = ("epoch", "feasible", "cosine", "agreement", "moved")
    names = (*first, "objective_alignment", "constraint_alignment")
    found = [name for name in names if steps and name in steps[0]]
    return {name: [_number(row[name]) for row in steps] for name in found}


def _finite(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _number(v) if isinstance(v, float) else v for k, v in row.items()}


def _tree(value: Any) -> Any:
    """Plain values without NaN, which JSON does not know."""
    if isinstance(value, Mapping):
        return {name: _tree(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_tree(part) for part in value]
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | None:
    return float(f"{value:.6g}") if value == value and abs(value) != float("inf") else None


def _cost(cost: Mapping[str, Any], calibrated: CalibrationResult) -> dict[str, Any]:
    spent = calibrated.history.seconds
    whole = float(cost["retraining_seconds"])
    return {
        "unlearning_seconds": round(spent, 2),
        "retraining_seconds": round(whole, 2),
        "ratio": round(whole / spent, 2) if spent > 0 else None,
        "note": str(cost.get("note", "")),
    }
