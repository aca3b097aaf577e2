"""Build the evidence of a request from the results of its stages."""

from __future__ import annotations

import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from torch import nn

from expunge.evaluation import METRICS
from expunge.request._accuracy import accuracy_interval
from expunge.request._forgetting import ForgettingResult
from expunge.request._id_key import IdKey
from expunge.request._ids import RequestedRecords
from expunge.request._job import Job
from expunge.request._job_file import repeat_commands
from expunge.request._judge import DELIVERED, Margins, check_loss_attack, decide, judge
from expunge.request._ledger import Ledger, LedgerEntry, digest_config
from expunge.request._predictions import predict_records
from expunge.request.evidence._measurements import (
    TEXT_ATTACK_LABELS,
    SplitPredictions,
    collect_scores,
    count_exposure,
    measure_classes,
    measure_examples,
    measure_metrics,
)
from expunge.request.evidence._next_steps import suggest_next_steps
from expunge.request.evidence._schema import SCHEMA_VERSION, Evidence
from expunge.request.evidence._sections import (
    EarlierAttempt,
    EarlierRequest,
    EarlierStatus,
    EpochRow,
    ExampleRow,
    ForgottenCopies,
    Hashes,
    Interval,
    LedgerName,
    PreflightFindings,
    RequestSummary,
    RequestVerdict,
    Stop,
)
from expunge.request.evidence._times_and_cost import CostComparison
from expunge.request.evidence._verdict import (
    EXPOSED_AGAIN,
    GIVEN_WORDS,
    LIMITS,
    TEXT_LIMITS,
    write_verdict,
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
    subject: Subject
    requested: RequestedRecords
    key: IdKey
    ledger: Ledger
    config: Mapping[str, Any]
    in_memory: bool = False
    attempts: Sequence[EarlierAttempt] = ()
    """Earlier attempts to forget the same ids from the same model."""

    @property
    def number(self) -> int:
        """Its position in the ledger, from 1."""
        return len(self.ledger.entries) + 1


@dataclass(frozen=True)
class Judged:
    """The model that was judged: what it predicts before, after, and after benign steps.

    ``chosen`` are the forgotten records, ``entries`` the requests before.
    """

    model: nn.Module
    stopped: Stop
    chosen: Sequence[int]
    entries: Sequence[LedgerEntry]
    before: SplitPredictions
    after: SplitPredictions
    relearned: SplitPredictions | None


def judged_sections(
    job: Job, subject: Subject, judged: Judged, attempts: Sequence[EarlierAttempt]
) -> dict[str, Any]:
    """Every section of the evidence that follows from weights and data."""
    before, after, relearned = judged.before, judged.after, judged.relearned
    texts = before.forget.of_texts
    margins = margins_of(job, before)
    checks = judge(before, after, relearned, subject.classes, margins, job.seed)
    earlier = check_earlier_requests(judged, subject, job.seed)
    status = decide(checks)
    if not judged.stopped.epoch or any(row.status == EXPOSED_AGAIN for row in earlier):
        status = "not achieved"
    metrics = measure_metrics(before, after, relearned, job.seed)
    given = check_loss_attack(before.forget, before, DELIVERED, job.seed, margins.auc)
    return {
        "verdict": write_verdict(
            status,
            checks,
            metrics,
            records=len(judged.chosen),
            stopped=judged.stopped,
            given=given,
            earlier=earlier,
            attempts=attempts,
            seed=job.seed,
            texts=texts,
        ),
        "margins": asdict(margins),
        "checks": checks,
        "metrics": metrics,
        "scores": collect_scores(before, after),
        "classes": measure_classes(subject.classes, after.forget.labels, before.test, after.test),
        "exposure": count_exposure(before, after),
        "earlier": earlier,
        "limits": _limits(subject, texts),
        **({"texts": True, "definitions": _definitions()} if texts else {}),
    }


def build_evidence(
    inputs: RequestInputs, preflight: Preflight, result: ForgettingResult, judged: Judged
) -> Evidence:
    """Everything but the times and the hashes of files.

    All numbers are those of the model that was judged, whether or not it is delivered.
    """
    job, subject = inputs.job, inputs.subject
    sections = judged_sections(job, subject, judged, inputs.attempts)
    verdict: RequestVerdict = sections.pop("verdict")
    next_steps = suggest_next_steps(
        verdict.status,
        job,
        sections["checks"],
        earlier=sections["earlier"],
        cost=preflight.as_dict()["cost"],
        texts=judged.before.forget.of_texts,
    )
    return Evidence(
        schema_version=SCHEMA_VERSION,
        kind="request",
        verdict=verdict.model_copy(update={"next_steps": next_steps}),
        request=_summary(inputs, preflight, judged.chosen),
        hashes=Hashes(
            weights_before=subject.weights_digest,
            data=subject.data_digest,
            ids=inputs.requested.hashed(inputs.key).digest,
            config=digest_config(inputs.config),
        ),
        config=dict(inputs.config),
        environment=environment(),
        seeds={"run": job.seed, "data": job.data_seed},
        preflight=without_records(preflight.as_dict()),
        epochs=[EpochRow.model_validate(_known(row)) for row in result.epochs],
        stopped=result.stopped,
        steps=_step_columns(result.history.steps),
        keep_examples=job.keep_examples,
        cost=_cost(preflight, result),
        attempts=list(inputs.attempts),
        commands=repeat_commands(job, inputs.number, in_memory=inputs.in_memory),
        **sections,
    )


def margins_of(job: Job, before: SplitPredictions) -> Margins:
    """The margins of a job; those that it does not give follow from the sizes of the data."""
    counts = before.test.labels.bincount()
    by_size = Margins.by_size(
        records=len(before.forget.labels),
        unseen=len(before.matched(job.seed)[1].labels),
        test=len(before.test.labels),
        class_sizes=[int(count) for count in counts if count],
        accuracy=float(before.val.right.mean()),
    )
    given = {name: getattr(job, f"margin_{name}") for name in asdict(by_size)}
    return Margins(**(asdict(by_size) | {k: v for k, v in given.items() if v is not None}))


def check_earlier_requests(judged: Judged, subject: Subject, seed: int) -> list[EarlierRequest]:
    """The records of earlier requests under the new model: they must stay forgotten."""
    rows = []
    for entry in judged.entries:
        records = subject.train.subset(list(entry.indices))
        predictions = predict_records(judged.model, records)
        check = check_loss_attack(predictions, judged.after, DELIVERED, seed)
        status: EarlierStatus = "was not achieved"
        if entry.unlearned:
            status = "still forgotten" if entry.achieved else "inconclusive"
            if check is not None and check.result == "outside" and check.value > 0.5:
                status = EXPOSED_AGAIN
        rows.append(
            EarlierRequest(
                number=entry.number,
                records=len(entry.indices),
                ua=Interval.of(accuracy_interval(predictions)),
                check=check,
                status=status,
            )
        )
    return rows


def _known(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the evidence keeps of an epoch, in three digits: means over the records say no more."""
    kept = {name: value for name, value in row.items() if name in EpochRow.model_fields}
    return {k: significant(v, 3) if isinstance(v, float) else v for k, v in kept.items()}


def significant(value: float, digits: int = 6) -> float | None:
    """So many significant digits; None for NaN and infinity, which JSON does not have."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else None


def _definitions() -> dict[str, int]:
    """The versions of the definitions of what is measured of texts."""
    names = ("exact_memorisation", "probability", *(f"auc_{name}" for name in TEXT_ATTACK_LABELS))
    return {name: METRICS[name].version for name in names}


def kept_examples(
    inputs: RequestInputs,
    chosen: Sequence[int],
    before: SplitPredictions,
    after: SplitPredictions,
) -> list[ExampleRow]:
    """Every forgotten record with its content, if the job keeps that."""
    if not inputs.job.keep_examples:
        return []
    # The ids that records were asked for by; of copies, their name or index.
    by_index = {i: name for name, indices in inputs.requested.by_id.items() for i in indices}
    names = inputs.subject.names
    ids = [by_index.get(i, names[i] if names else str(i)) for i in chosen]
    images = getattr(inputs.subject.train.subset(list(chosen)), "images", None)
    hashes = list(map(inputs.key.hash_id, ids))
    return measure_examples(hashes, inputs.subject.classes, before, after, images)


def without_records(findings: Mapping[str, Any]) -> PreflightFindings:
    """The findings of the preflight without what describes single records.

    Whoever has the data finds the two that are as similar as stated.
    """
    duplicates = dict(findings["duplicates"])
    duplicates["exact"] = len(duplicates["exact"])
    duplicates["near"] = duplicates.pop("near_count")
    return PreflightFindings.model_validate({**findings, "duplicates": duplicates})


def _summary(inputs: RequestInputs, preflight: Preflight, chosen: Sequence[int]) -> RequestSummary:
    job, last = inputs.job, inputs.ledger.last
    return RequestSummary(
        number=inputs.number,
        ids=len(inputs.requested.ids),
        records=len(chosen),
        copies=_copies(inputs, preflight, chosen),
        share=round(len(chosen) / len(inputs.subject.train), 6),
        source="a file" if job.ids else "given in Python",
        when=now(),
        ledger=_ledger_name(inputs),
        previous=None if last is None else last.head,
        attempt=len(inputs.attempts) + 1,
        skipped=inputs.requested.skipped,
        unmapped=inputs.requested.unmapped,
        unseen=sum(map(len, inputs.requested.unseen.values())),
    )


def _ledger_name(inputs: RequestInputs) -> LedgerName:
    """The name of the ledger, which its first request makes."""
    if inputs.ledger.entries:
        return inputs.ledger.entries[0].evidence.request.ledger
    subject = inputs.subject
    return LedgerName(
        id=secrets.token_hex(16), model=subject.weights_digest, data=subject.data_digest
    )


def _copies(inputs: RequestInputs, preflight: Preflight, chosen: Sequence[int]) -> ForgottenCopies:
    """The copies that were forgotten with the requested records."""
    duplicates, forgotten = preflight.duplicates, set(chosen)
    included = {copy.index for copy in duplicates.to_include(inputs.job.include_duplicates)}
    exact = {copy.index for copy in duplicates.to_include("exact")} & included & forgotten
    return ForgottenCopies(exact=len(exact), near=len(included & forgotten) - len(exact))


def _step_columns(steps: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    present = [name for name in STEP_COLUMNS if steps and name in steps[0]]
    return {name: [significant(row[name]) for row in steps] for name in present}


def _limits(subject: Subject, of_texts: bool) -> list[str]:
    limits = list(TEXT_LIMITS if of_texts else LIMITS)
    return limits if compares_all_words(subject) else [*limits, GIVEN_WORDS]


def _cost(preflight: Preflight, result: ForgettingResult) -> CostComparison:
    """What retraining would cost; what the request itself took is not known yet."""
    cost = preflight.as_dict()["cost"]
    return CostComparison(
        unlearning_seconds=round(result.history.seconds, 2),
        retraining_seconds=cost["retraining_seconds"],
        retraining_processor_seconds=cost["retraining_processor_seconds"],
        retraining_epochs=cost["retraining_epochs"],
        ratio=None,
        note=str(cost["note"]),
    )
