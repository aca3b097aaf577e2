"""Build the evidence of a request from the results of its stages."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from expunge.evaluation import METRICS
from expunge.request._examination import Examination
from expunge.request._id_key import HashedRecords, IdKey
from expunge.request._ids import RequestedRecords
from expunge.request._job import Job
from expunge.request._job_file import repeat_commands
from expunge.request._ledger import Ledger, digest_config
from expunge.request.calibrate._run import CalibrationResult
from expunge.request.evidence._audit import (
    audit_earlier_requests,
    audit_models,
    held_out_comparison,
    power_check,
    rounded,
    significant,
)
from expunge.request.evidence._measurements import (
    TEXT_ATTACK_LABELS,
    SplitPredictions,
    collect_scores,
    count_exposed,
    count_exposure,
    measure_classes,
    measure_examples,
    over_forgetting_warnings,
)
from expunge.request.evidence._next_steps import suggest_next_steps
from expunge.request.evidence._schema import SCHEMA_VERSION, Evidence
from expunge.request.evidence._sections import (
    AttackRow,
    Attempt,
    EarlierAttempt,
    Environment,
    EpochRow,
    ExampleRow,
    ForgottenCopies,
    Hashes,
    LedgerName,
    PreflightFindings,
    RequestSummary,
)
from expunge.request.evidence._times_and_cost import CostComparison
from expunge.request.evidence._verdict import (
    AUDIT_PREFIX,
    GIVEN_WORDS,
    LIMITS,
    SHIFTED,
    TEXT_LIMITS,
    judge_request,
)
from expunge.request.preflight._check import Preflight
from expunge.request.subject._comparable import compares_all_words
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
    requested: RequestedRecords
    hashed: HashedRecords
    """The ids and records that were asked for, as keyed hashes."""
    key: IdKey
    ledger: Ledger
    """Of the requests before."""
    config: Mapping[str, Any]
    in_memory: bool = False
    attempts: Sequence[EarlierAttempt] = ()
    """Earlier attempts to forget the same ids from the same model."""

    @property
    def number(self) -> int:
        """Its position in the ledger, from 1."""
        return len(self.ledger.entries) + 1


@dataclass(frozen=True)
class Conclusion:
    """The evidence, the model that is delivered, and what goes with them into the bundle."""

    evidence: Evidence
    model: nn.Module
    discarded: nn.Module | None = None
    """The model of a run that was undone: to look at, not to use."""
    examples: Sequence[ExampleRow] = ()
    """The forgotten records one by one, if the job keeps them."""


def conclude(
    inputs: RequestInputs,
    examination: Examination,
    calibrated: CalibrationResult,
    *,
    advise: bool = True,
) -> Conclusion:
    """Build the evidence; a run that did not achieve its aim is undone.

    Where that cannot be told, the model is kept: it did the work, and broke nothing. With
    ``advise``, the verdict says what to try next.
    """
    before = after = examination.before
    if calibrated.stopped.epoch:
        after = examination.predict(calibrated.model)
    evidence = build_evidence(inputs, examination, calibrated, after, advise=advise)
    if evidence.unlearned or not calibrated.stopped.epoch:
        examples = kept_examples(inputs, examination, after)
        return Conclusion(evidence, calibrated.model, None, examples)
    attempt = Attempt(
        stopped=evidence.stopped,
        metrics=evidence.metrics,
        attacks=evidence.attacks,
        floors=evidence.floors,
    )
    # What spoke against the model, and what to try next, is known from the attempt alone.
    kept = {name: getattr(evidence.verdict, name) for name in ("objections", "next_steps")}
    undone = _undo(calibrated, examination.subject.model, evidence)
    unchanged = [row.model_copy(update={"after": row.before}) for row in evidence.attacks]
    evidence = build_evidence(inputs, examination, undone, before, unchanged, advise=advise)
    verdict = evidence.verdict.model_copy(update=kept)
    evidence = evidence.model_copy(update={"attempt": attempt, "verdict": verdict})
    examples = kept_examples(inputs, examination, before)
    return Conclusion(evidence, undone.model, calibrated.model, examples)


def _undo(calibrated: CalibrationResult, model: nn.Module, evidence: Evidence) -> CalibrationResult:
    """The result with the original ``model``, because the best one was not good enough."""
    stopped = calibrated.stopped
    reason = f"{stopped.reason} That is not enough, so the model was left as it was."
    if stopped.status == "achieved":
        objections = evidence.verdict.objections
        reason = (
            f"Epoch {stopped.epoch} satisfied the validation data, but not the audit, so the model "
            f"was left as it was. {' '.join(objections)}"
        )
        if any(objection.startswith(AUDIT_PREFIX) for objection in objections):
            reason += " With more validation data, the run could see what the audit saw."
    update = {"epoch": 0, "reason": reason, "status": "not achieved"}
    return replace(calibrated, model=model, stopped=stopped.model_copy(update=update))


def build_evidence(
    inputs: RequestInputs,
    examination: Examination,
    calibration: CalibrationResult,
    after: SplitPredictions,
    attacks: Sequence[AttackRow] | None = None,
    *,
    advise: bool = True,
) -> Evidence:
    """Everything but the times and the hashes of files.

    ``attacks`` are those on both models, if they are known.
    """
    job, subject, before = inputs.job, examination.subject, examination.before
    preflight, chosen, stopped = examination.findings, examination.to_forget, calibration.stopped

    # Measure both models, and find what speaks against the new one.
    earlier = audit_earlier_requests(inputs.ledger.entries, calibration.model, subject, chosen, job)
    audit = audit_models(
        before,
        after,
        calibration.target,
        classes=subject.classes,
        stopped=stopped,
        earlier=earlier,
        rules=job,
        attacks=attacks,
    )
    # Judge.
    warnings = list(stopped.warnings)
    if stopped.status == "achieved":
        warnings += over_forgetting_warnings(after, job.seed)
    verdict = judge_request(
        stopped=stopped,
        records=len(chosen),
        metrics=audit.metrics,
        attacks=audit.attacks,
        exposed=count_exposed(after),
        objections=audit.objections,
        power=audit.power,
        warnings=warnings,
        attempts=inputs.attempts,
        seed=job.seed,
        texts=before.forget.of_texts,
    )
    next_steps = advise and suggest_next_steps(
        verdict.status,
        job,
        arrived=stopped.status == "achieved",
        audit_failed=stopped.status == "achieved" and not audit.held_out.indistinguishable,
        rows=calibration.epochs,
        unseen_of_classes={
            name: int(torch.isin(getattr(before, name).labels, before.forget.labels).sum())
            for name in ("val", "test")
        },
        floors=audit.floors,
        earlier=earlier,
        cost=preflight.as_dict()["cost"],
        number=inputs.number,
        has_card=subject.card is not None,
        texts=before.forget.of_texts,
    )

    # Put it on record.
    evidence = Evidence(
        schema_version=SCHEMA_VERSION,
        kind="request",
        verdict=verdict.model_copy(update={"next_steps": next_steps or []}),
        request=_summary(inputs, examination),
        hashes=Hashes(
            weights_before=subject.weights_digest,
            data=subject.data_digest,
            ids=inputs.hashed.digest,
            config=digest_config(inputs.config),
        ),
        config=dict(inputs.config),
        environment=Environment.model_validate(environment()),
        seeds={"run": job.seed, "data": job.data_seed},
        preflight=without_records(preflight.as_dict()),
        target=audit.target,
        metrics=audit.metrics,
        epochs=[EpochRow.model_validate(rounded(row, len(chosen))) for row in calibration.epochs],
        stopped=stopped,
        steps=_step_columns(calibration.history.steps),
        attacks=audit.attacks,
        held_out=held_out_comparison(audit.held_out, len(chosen)),
        power=None if audit.power is None else power_check(audit.power),
        floors=audit.floors,
        scores=collect_scores(before, after),
        classes=measure_classes(subject.classes, after.forget.labels, before.val, after.val),
        exposure=count_exposure(before, after),
        keep_examples=job.keep_examples,
        cost=_cost(preflight, calibration),
        earlier=earlier,
        attempts=list(inputs.attempts),
        limits=_limits(subject, before.forget.of_texts, bool(audit.held_out.shift)),
        commands=repeat_commands(job, inputs.number, in_memory=inputs.in_memory),
    )
    if not before.forget.of_texts:
        return evidence
    return evidence.model_copy(update={"texts": True, "definitions": _definitions()})


def _definitions() -> dict[str, int]:
    """The versions of the definitions of what is measured of texts."""
    names = ("exact_memorisation", "probability", *(f"auc_{name}" for name in TEXT_ATTACK_LABELS))
    return {name: METRICS[name].version for name in names}


def kept_examples(
    inputs: RequestInputs, examination: Examination, after: SplitPredictions
) -> list[ExampleRow]:
    """Every forgotten record with its content, if the job keeps that."""
    if not inputs.job.keep_examples:
        return []
    # The ids that records were asked for by; of copies, their name or index.
    by_index = {i: name for name, indices in inputs.requested.by_id.items() for i in indices}
    names, classes = examination.subject.names, examination.subject.classes
    ids = [by_index.get(i, names[i] if names else str(i)) for i in examination.to_forget]
    images = getattr(examination.forget, "images", None)
    hashes = list(map(inputs.key.hash_id, ids))
    return measure_examples(hashes, classes, examination.before, after, images)


def without_records(findings: Mapping[str, Any]) -> PreflightFindings:
    """The findings of the preflight without what describes single records.

    Whoever has the data finds the two that are as similar as stated.
    """
    duplicates = dict(findings["duplicates"])
    duplicates["exact"] = len(duplicates["exact"])
    duplicates["near"] = duplicates.pop("near_count")
    return PreflightFindings.model_validate({**findings, "duplicates": duplicates})


def _summary(inputs: RequestInputs, examination: Examination) -> RequestSummary:
    job, last, chosen = inputs.job, inputs.ledger.last, examination.to_forget
    return RequestSummary(
        number=inputs.number,
        ids=len(inputs.requested.ids),
        records=len(chosen),
        copies=_copies(job, examination),
        share=round(len(chosen) / len(examination.subject.train), 6),
        source="a file" if job.ids else "given in Python",
        when=now(),
        ledger=_ledger_name(inputs, examination.subject),
        previous=None if last is None else last.head,
        attempt=len(inputs.attempts) + 1,
        skipped=inputs.requested.skipped,
        unmapped=inputs.requested.unmapped,
        unseen=sum(map(len, inputs.requested.unseen.values())),
    )


def _ledger_name(inputs: RequestInputs, subject: Subject) -> LedgerName:
    """The name of the ledger, which its first request makes."""
    if inputs.ledger.entries:
        return inputs.ledger.entries[0].evidence.request.ledger
    return LedgerName(
        id=secrets.token_hex(16), model=subject.weights_digest, data=subject.data_digest
    )


def _copies(job: Job, examination: Examination) -> ForgottenCopies:
    """The copies that were forgotten with the requested records."""
    duplicates, forgotten = examination.findings.duplicates, set(examination.to_forget)
    included = {copy.index for copy in duplicates.to_include(job.include_duplicates)}
    exact = {copy.index for copy in duplicates.to_include("exact")} & included & forgotten
    return ForgottenCopies(exact=len(exact), near=len(included & forgotten) - len(exact))


def _step_columns(steps: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    present = [name for name in STEP_COLUMNS if steps and name in steps[0]]
    return {name: [significant(row[name]) for row in steps] for name in present}


def _limits(subject: Subject, of_texts: bool, shifted: bool) -> list[str]:
    limits = list(TEXT_LIMITS if of_texts else LIMITS)
    if not compares_all_words(subject):
        limits.append(GIVEN_WORDS)
    return [*limits, SHIFTED] if shifted else limits


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
