"""Build the evidence of a request from the results of its stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from expunge.engine._prediction_memory import predict_once
from expunge.evaluation import predict
from expunge.request._accuracy import accuracy_interval
from expunge.request._ids import RequestedRecords
from expunge.request._job import Job
from expunge.request._job_file import repeat_commands
from expunge.request._ledger import Ledger, digest_config
from expunge.request.calibrate._comparison import Comparison, compare
from expunge.request.calibrate._floors import check_floors
from expunge.request.calibrate._power import NEEDED, Power, estimate_power
from expunge.request.calibrate._run import CalibrationResult
from expunge.request.calibrate._target import ClassCounts, estimate_target
from expunge.request.evidence._measurements import (
    SplitPredictions,
    collect_scores,
    measure_attacks,
    measure_classes,
    measure_examples,
    measure_metrics,
    over_forgetting_warnings,
)
from expunge.request.evidence._next_steps import suggest_next_steps
from expunge.request.evidence._schema import SCHEMA_VERSION, Evidence
from expunge.request.evidence._sections import (
    AttackRow,
    EarlierAttempt,
    EarlierRequest,
    EarlierStatus,
    EpochRow,
    ForgottenCopy,
    Hashes,
    HeldOutComparison,
    Interval,
    PowerCheck,
    PreflightFindings,
    RequestSummary,
    TargetInterval,
)
from expunge.request.evidence._times_and_cost import CostComparison
from expunge.request.evidence._verdict import LIMITS, find_objections, judge_request
from expunge.request.preflight._check import Preflight
from expunge.request.subject._load import Subject
from expunge.store._environment import environment, now

STEP_COLUMNS = (
    "epoch",
    "feasible",
    "cosine",
    "agreement",
    "moved",
    "objective_alignment",
    "constraint_alignment",
)


@dataclass(frozen=True)
class RequestInputs:
    """A request: what was asked of which model, after which others."""

    job: Job
    subject: Subject
    requested: RequestedRecords
    ledger: Ledger
    config: Mapping[str, Any]
    in_memory: bool = False
    attempts: Sequence[EarlierAttempt] = ()
    """Earlier attempts to forget the same ids from the same model."""

    @property
    def number(self) -> int:
        """Its position in the ledger, from 1."""
        return len(self.ledger.entries) + 1


def build_evidence(
    inputs: RequestInputs,
    preflight: Preflight,
    chosen: Sequence[int],
    calibration: CalibrationResult,
    before: SplitPredictions,
    after: SplitPredictions,
    attacks: Sequence[AttackRow] | None = None,
) -> Evidence:
    """Everything but the times and the hashes of files; ``chosen`` are the forgotten records.

    ``attacks`` are those on both models, if they are known.
    """
    job, subject, stopped = inputs.job, inputs.subject, calibration.stopped

    # Measure both models; the comparison with test data is new to the run.
    target = _target(calibration)
    metrics = measure_metrics(before, after, target, job.level)
    attacks = attacks or measure_attacks(before, after, job.level, job.seed)
    images = getattr(subject.train.subset(list(chosen)), "images", None)
    ids = _display_ids(inputs, chosen)
    examples = measure_examples(chosen, ids, subject.classes, before, after, images)
    earlier = measure_earlier_requests(inputs, calibration, chosen)
    held_out = compare(
        after.forget,
        after.test,
        calibration.target,
        level=job.level,
        seed=job.seed,
        val_name="test",
    )
    floors = check_floors(
        subject.classes,
        ClassCounts.of(before.val, before.forget.labels, before.retain.labels),
        {"val": (before.val, after.val), "test": (before.test, after.test)},
        floor=job.floor,
        level=job.level,
    )

    # Judge. Only where everything passed does it matter whether anything could have failed.
    objections = find_objections(stopped, earlier, held_out, floors)
    power = None
    if stopped.status == "achieved" and not objections:
        unseen = {"val": before.val, "test": before.test}
        power = estimate_power(
            before.forget, unseen, calibration.target, level=job.level, seed=job.seed
        )
    warnings = list(calibration.warnings)
    if stopped.status == "achieved":
        warnings += over_forgetting_warnings(after, job.seed)
    verdict = judge_request(
        stopped=stopped,
        records=len(chosen),
        metrics=metrics,
        attacks=attacks,
        examples=examples,
        objections=objections,
        power=power,
        warnings=warnings,
        attempts=inputs.attempts,
        seed=job.seed,
    )
    next_steps = suggest_next_steps(
        verdict.status,
        job,
        arrived=stopped.status == "achieved",
        audit_failed=stopped.status == "achieved" and not held_out.indistinguishable,
        epochs=len(calibration.epochs),
        unseen_of_classes={
            name: int(torch.isin(getattr(before, name).labels, before.forget.labels).sum())
            for name in ("val", "test")
        },
        floors=floors,
        earlier=earlier,
        cost=preflight.as_dict()["cost"],
        number=inputs.number,
        has_card=subject.card is not None,
    )

    # Put it on record.
    return Evidence(
        schema_version=SCHEMA_VERSION,
        format=1,
        kind="request",
        verdict=verdict.model_copy(update={"next_steps": next_steps}),
        request=_summary(inputs, preflight, chosen),
        hashes=Hashes(
            weights_before=subject.weights_digest,
            data=subject.data_digest,
            ids=inputs.requested.digest,
            config=digest_config(inputs.config),
        ),
        config=dict(inputs.config),
        environment=environment(),
        seeds={"run": job.seed, "data": job.data_seed},
        preflight=PreflightFindings.model_validate(preflight.as_dict()),
        target=target,
        metrics=metrics,
        epochs=[EpochRow.model_validate(_rounded(row)) for row in calibration.epochs],
        stopped=stopped,
        steps=_step_columns(calibration.history.steps),
        attacks=list(attacks),
        held_out=_held_out(held_out),
        power=None if power is None else _power_check(power),
        floors=floors,
        scores=collect_scores(before, after),
        classes=measure_classes(subject.classes, after.forget.labels, before.val, after.val),
        examples=examples,
        cost=_cost(preflight, calibration),
        earlier=earlier,
        attempts=list(inputs.attempts),
        limits=list(LIMITS),
        commands=repeat_commands(job, inputs.number, in_memory=inputs.in_memory),
    )


def measure_earlier_requests(
    inputs: RequestInputs, calibration: CalibrationResult, chosen: Sequence[int]
) -> list[EarlierRequest]:
    """The records of earlier requests under the new model: they must stay forgotten."""
    if not inputs.ledger.entries:
        return []
    job, train = inputs.job, inputs.subject.train
    forgotten = {*chosen}.union(*inputs.ledger.forgotten.values())
    retained = train.labels[[i for i in range(len(train)) if i not in forgotten]]
    val = predict_once(calibration.model, inputs.subject.val)
    rows = []
    for entry in inputs.ledger.entries:
        predictions = predict(calibration.model, train.subset(list(entry.indices)))
        target = estimate_target(val, predictions.labels, retained, level=job.level)
        comparison = compare(predictions, val, target, level=job.level, seed=job.seed)
        status: EarlierStatus = "was not achieved"
        if entry.unlearned:
            status = "still forgotten" if entry.achieved else "could not be told"
            if comparison.ua > target.accuracy.high:
                status = "exposed again"
        rows.append(
            EarlierRequest(
                number=entry.number,
                records=len(entry.indices),
                ua=Interval.of(accuracy_interval(predictions, job.level)),
                target=Interval.of(target.accuracy),
                status=status,
            )
        )
    return rows


def _target(calibration: CalibrationResult) -> TargetInterval:
    target = calibration.target
    return TargetInterval(
        **Interval.of(target.accuracy).model_dump(),
        n_val=target.n_val,
        n_forget=target.n_forget,
        notes=list(target.notes),
    )


def _display_ids(inputs: RequestInputs, chosen: Sequence[int]) -> list[str]:
    """The id that each record was asked for by; for copies their name or index."""
    by_index = {i: name for name, indices in inputs.requested.by_id.items() for i in indices}
    names = inputs.subject.names
    return [by_index.get(i, names[i] if names else str(i)) for i in chosen]


def _summary(inputs: RequestInputs, preflight: Preflight, chosen: Sequence[int]) -> RequestSummary:
    job, last = inputs.job, inputs.ledger.last
    return RequestSummary(
        number=inputs.number,
        ids=len(inputs.requested.ids),
        records=len(chosen),
        copies=_copies(preflight, job, chosen),
        share=round(len(chosen) / len(inputs.subject.train), 6),
        source=str(job.ids) if job.ids else "given in Python",
        when=now(),
        previous=None if last is None else last.digest,
        previous_seal=None if last is None else last.head,
        attempt=len(inputs.attempts) + 1,
    )


def _copies(preflight: Preflight, job: Job, chosen: Sequence[int]) -> list[ForgottenCopy]:
    """The copies that were forgotten with the requested records."""
    duplicates, forgotten = preflight.duplicates, set(chosen)
    exact = {copy.index for copy in duplicates.to_include("exact")}
    return [
        ForgottenCopy(
            record=copy.index,
            kind="exact" if copy.index in exact else "near",
            copy_of=copy.forgotten,
            similarity=round(copy.similarity, 6),
        )
        for copy in duplicates.to_include(job.include_duplicates)
        if copy.index in forgotten
    ]


def _power_check(power: Power) -> PowerCheck:
    return PowerCheck(
        power=power.value,
        needed=NEEDED,
        draws=power.draws,
        told_apart=power.told_apart,
        distance=float(f"{power.distance:.6g}"),
        sufficient=power.sufficient,
    )


def _held_out(comparison: Comparison) -> HeldOutComparison:
    values = _rounded(comparison.as_dict())
    values["attacks"] = {name: _rounded(auc) for name, auc in values["attacks"].items()}
    return HeldOutComparison.model_validate(values)


def _step_columns(steps: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    present = [name for name in STEP_COLUMNS if steps and name in steps[0]]
    return {name: [_significant(row[name]) for row in steps] for name in present}


def _rounded(row: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _significant(v) if isinstance(v, float) else v for k, v in row.items()}


def _significant(value: float) -> float | None:
    """Six significant digits; None for NaN and infinity, which JSON does not have."""
    return float(f"{value:.6g}") if value == value and abs(value) != float("inf") else None


def _cost(preflight: Preflight, calibration: CalibrationResult) -> CostComparison:
    """What retraining would cost; what the request itself took is not known yet."""
    cost = preflight.as_dict()["cost"]
    return CostComparison(
        unlearning_seconds=round(calibration.history.seconds, 2),
        retraining_seconds=cost["retraining_seconds"],
        retraining_processor_seconds=cost["retraining_processor_seconds"],
        retraining_epochs=cost["retraining_epochs"],
        ratio=None,
        note=str(cost["note"]),
    )
