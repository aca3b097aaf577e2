"""Build the evidence of a request again, from its weights and data, and compare the two.

Sections that follow from weights and data are compared field by field, exactly but for the last
digit. :data:`NOT_RECOMPUTED` are the others: what only the run, its machine and its clock knew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge.data import Examples
from expunge.request._compare_trees import compare_trees
from expunge.request._forgetting import forget_for
from expunge.request._job import Job, make_job
from expunge.request._ledger import WEIGHTS, LedgerEntry
from expunge.request._predictions import predict_relearned, predict_splits
from expunge.request._seal import ATTEMPT
from expunge.request.evidence._build import Judged, judged_sections
from expunge.request.evidence._schema import Evidence
from expunge.request.subject._comparable import with_comparable_answers
from expunge.request.subject._load import Subject

NOT_RECOMPUTED = (
    "config",
    "environment",
    "seeds",
    "preflight",
    "epochs",
    "stopped",
    "steps",
    "cost",
    "seconds",
    "commands",
    "attempts",
    "files",
    "signed_by",
    "keep_examples",
    "request.number",
    "request.ids",
    "request.copies",
    "request.skipped",
    "request.unmapped",
    "request.unseen",
    "request.source",
    "request.when",
    "request.previous",
    "request.previous_seal",
    "request.attempt",
    "request.ledger",
    "hashes.ids",
    "hashes.config",
    "verdict.next_steps",
)
"""Fields that hashes, seals and signatures protect, and no computation can repeat."""


@dataclass(frozen=True)
class Finding:
    """What was computed again, and what came out differently, in a sentence; empty if nothing."""

    claim: str
    problem: str = ""


@dataclass(frozen=True)
class Recomputation:
    """What came out again or did not, and what could not be computed, in sentences."""

    findings: tuple[Finding, ...]
    left_out: tuple[str, ...] = ()


def recompute(
    entry: LedgerEntry,
    earlier: Sequence[LedgerEntry],
    subject: Subject,
    *,
    replay: bool = False,
) -> Recomputation:
    """Everything that follows from the weights in the bundles; ``earlier`` are the requests before.

    Where the weights from before the request are gone, nothing can be computed again. ``replay``
    also carries out the forgetting itself once more, and compares the weights bit by bit.
    """
    evidence, job = entry.evidence, _job_of(entry)
    chosen = list(entry.indices)
    gone = set().union(*(request.indices for request in earlier))
    subject = with_comparable_answers(subject.without_unseen(entry.unseen), chosen, gone)
    train = subject.train
    kept = [i for i in range(len(train)) if i not in {*gone, *chosen}]
    forget, retain = train.subset(chosen), train.subset(kept)

    # The three models: as it was, as it was delivered, and as it was judged.
    before = _model_before(evidence, earlier, subject)
    delivered = _model_in(entry, WEIGHTS, subject)
    if before is None:
        return Recomputation((), ("any number: the weights from before are gone",))
    if delivered is None:
        return Recomputation((), (f"any number: {WEIGHTS} of this request is gone",))
    judged = delivered
    if evidence.discarded:
        attempt = _model_in(entry, ATTEMPT, subject)
        if attempt is None:
            return Recomputation((), (f"any number: {ATTEMPT} of this request is gone",))
        judged = attempt

    # The sections that they and the data give, against those that are stated.
    predictions = predict_splits(before, subject, forget, retain)
    after = predictions
    if evidence.stopped.epoch:
        after = predict_splits(judged, subject, forget, retain)
    sections = judged_sections(
        job,
        subject,
        Judged(
            judged,
            evidence.stopped,
            chosen,
            earlier,
            predictions,
            after,
            predict_relearned(judged, subject, forget, retain, job.seed),
        ),
        evidence.attempts,
    )
    digests = {
        "weights_before": tensors.state_digest(before.state_dict()),
        "weights_after": tensors.state_digest(delivered.state_dict()),
        "data": subject.data_digest,
    }
    if judged is not delivered:
        digests["attempt"] = tensors.state_digest(judged.state_dict())
    counts = {"records": len(chosen), "share": round(len(chosen) / len(train), 6)}
    found = _rebuilt(evidence, sections, digests, counts)
    stated = evidence.as_json()
    findings = []
    for name in found:
        differences = list(compare_trees(stated.get(name), found[name], NOT_RECOMPUTED, path=name))
        problem = f"{differences[0]}" if differences else ""
        if len(differences) > 1:
            problem += f" (and {len(differences) - 1} more fields differ)"
        findings.append(Finding(f"{name}, computed again", problem and f"{problem}."))
    if replay:
        findings.append(_replayed(job, replace(subject, model=before), forget, retain, judged))
    return Recomputation(tuple(findings))


def _replayed(
    job: Job, subject: Subject, forget: Examples, retain: Examples, judged: nn.Module
) -> Finding:
    """Whether the same computation on the same data gives the same weights."""
    again = forget_for(job, subject, forget, retain, progress=False)
    digests = [tensors.state_digest(model.state_dict()) for model in (again.model, judged)]
    problem = (
        "Forgetting these records again by the same settings gives other weights. Another machine, "
        "another number of threads or other versions do that, too; on the same ones, the weights "
        "are not what the request says it computed."
    )
    return Finding("weights, trained again", "" if digests[0] == digests[1] else problem)


def _rebuilt(
    evidence: Evidence, sections: dict[str, Any], digests: dict[str, str], counts: dict[str, Any]
) -> dict[str, Any]:
    """The evidence as it should be, in plain values, without what is not recomputed."""
    changes = {
        "request": evidence.request.model_copy(update=counts),
        "hashes": evidence.hashes.model_copy(update=digests),
    }
    rebuilt = evidence.model_copy(update=sections | changes).as_json()
    return {name: value for name, value in rebuilt.items() if name not in NOT_RECOMPUTED}


def _job_of(entry: LedgerEntry) -> Job:
    """The settings that the evidence states; whoever wrote them, they should make a job."""
    config = entry.evidence.config
    settings = {name: config[name] for name in Job.model_fields if config.get(name) is not None}
    try:
        return make_job(**settings)
    except InvalidInput as error:
        raise DataError(
            f"The configuration of request {entry.number} is damaged: {error}"
        ) from error


def _model_in(entry: LedgerEntry, name: str, subject: Subject) -> nn.Module | None:
    path = entry.folder / name
    return subject.with_weights(path).model if path.is_file() else None


def _model_before(
    evidence: Evidence, earlier: Sequence[LedgerEntry], subject: Subject
) -> nn.Module | None:
    """The model that the request started with: of the one before, or as it was given."""
    if earlier:
        return _model_in(earlier[-1], WEIGHTS, subject)
    given = subject.weights_digest == evidence.hashes.weights_before
    return subject.model if given else None
