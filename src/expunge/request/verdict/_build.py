"""Build the evidence of a request from the results of its stages."""

from __future__ import annotations

import secrets
import shlex
from calendar import monthrange
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from typing import Any

from torch import Tensor, nn

from expunge import _tensors as tensors
from expunge._environment import environment, now
from expunge.evidence import (
    SCHEMA_VERSION,
    DerivedModel,
    EarlierAttempt,
    EarlierRequest,
    EarlierStatus,
    Environment,
    EpochRow,
    Evidence,
    Hashes,
    LedgerName,
    RequestSummary,
)
from expunge.ledger import JOB, ForgottenRecords, Ledger, digest_config
from expunge.request._forgetting import ForgettingResult
from expunge.request._ids import RequestedRecords
from expunge.request._job import Job
from expunge.request._predictions import accuracy_interval, predict_records
from expunge.request.loading._load import ModelAndData
from expunge.request.loading._texts import compares_all_words
from expunge.request.verdict._checks import (
    DELIVERED,
    Margins,
    check_facts,
    check_loss_attack,
    make_checks,
    without_unattainable,
)
from expunge.request.verdict._measurements import (
    RequestData,
    RequestPredictions,
    count_exposure,
    measure_classes,
    measure_metrics,
)
from expunge.request.verdict._sentences import (
    EXACT_LIMIT,
    EXPOSED_AGAIN,
    GIVEN_WORDS,
    LIMITS,
    TEXT_LIMITS,
    suggest_next_steps,
    write_verdict,
)

FORGET_ARGUMENTS = {"model", "weights", "data", "ids", "out"}
"""Fields of a job that are arguments of :func:`expunge.forget`, not settings."""


@dataclass(frozen=True)
class Request:
    """A request: what was asked of which model, after which others."""

    job: Job
    requested: RequestedRecords
    hashed: ForgottenRecords
    ledger: Ledger
    """Of the requests before."""
    config: Mapping[str, Any]
    when: str = field(default_factory=now)

    @property
    def number(self) -> int:
        """Its position in the ledger, from 1."""
        return len(self.ledger.entries) + 1

    @property
    def attempts(self) -> list[EarlierAttempt]:
        """Earlier requests of the ledger for some of the same records."""
        return self.ledger.attempts_on({*self.hashed.asked} & {*self.hashed.records})


def config_of(
    job: Job, values: Mapping[str, Any], *, in_memory: bool, number: int
) -> dict[str, Any]:
    """All settings of a request, as the evidence states them; ``values`` replace those of a job."""
    settings = job.model_dump(mode="json", exclude={"ids"}) | dict(values)
    return settings | {"in_memory": in_memory, "out": str(job.out), "number": number}


def conclude(
    request: Request,
    divided: RequestData,
    result: ForgettingResult,
    *,
    advise: bool = True,
) -> Evidence:
    """Judge the model of a run and build the evidence; what is not good enough is discarded.

    Where the verdict is inconclusive, the model is kept: no check contradicts it. With ``advise``,
    the verdict says what to try next. All numbers are those of the model that was judged, whether
    or not it is delivered; times and the hashes of files are not known yet.
    """
    job, loaded, before = request.job, divided.loaded, divided.before
    moved = bool(result.stopped.epoch)

    # Judge: as delivered, after benign steps, attacked, and the records of earlier requests.
    after = divided.predict(result.model) if moved else before
    later = divided.predict_after_benign_steps(result.model, job.seed)
    retained = divided.retain.labels
    margins = margins_of(job, before, retained)
    checks = make_checks(before, after, later, loaded.classes, margins, job.seed, retained)
    for moment, scores in divided.attack_facts(result.model, job.seed).items():
        checks += check_facts(scores, margins, moment)
    found, checks = checks, [without_unattainable(each, len(loaded.train)) for each in checks]
    earlier = check_earlier_requests(request.ledger, result.model, loaded, after, job.seed)
    metrics = measure_metrics(before, after, later, job.seed)
    judged = tensors.state_digest(result.model.state_dict())
    judged_before = request.ledger.discarded_by(judged)
    verdict = write_verdict(
        checks,
        metrics,
        records=len(divided.to_forget),
        stopped=result.stopped,
        attack_before=check_loss_attack(before.forget, before, DELIVERED, job.seed, margins.auc),
        earlier=earlier,
        attempts=request.attempts,
        judged_before=judged_before,
        seed=job.seed,
    )
    if advise:
        steps = suggest_next_steps(
            verdict.status,
            job,
            checks,
            earlier=earlier,
            cost=divided.preflight.findings.cost,
            texts=before.forget.of_texts,
            too_small=checks != found,
        )
        verdict = verdict.model_copy(update={"next_steps": steps})

    # Put it on record.
    unlearned = verdict.status != "not achieved"
    return Evidence(
        schema_version=SCHEMA_VERSION,
        kind="request",
        verdict=verdict,
        request=_summary(request, divided, judged_before),
        hashes=Hashes(
            weights_before=loaded.weights_digest,
            data=loaded.data_digest,
            ids=request.hashed.digest,
            config=digest_config(request.config),
            weights_after=judged if unlearned else loaded.weights_digest,
            **({"discarded": judged} if moved and not unlearned else {}),
        ),
        config=dict(request.config),
        environment=Environment.model_validate(environment()),
        preflight=divided.preflight.findings,
        margins=asdict(margins),
        checks=checks,
        metrics=metrics,
        epochs=[EpochRow.model_validate(_kept_of_epoch(row)) for row in result.epochs],
        stopped=result.stopped,
        classes=measure_classes(loaded.classes, after.forget.labels, before.test, after.test),
        exposure=count_exposure(before, after),
        earlier=earlier,
        derived=[DerivedModel(**each.model_dump()) for each in job.derived],  # all fields are set
        attempts=request.attempts,
        limits=_limits(divided, exact=request.job.exact),
        commands=repeat_commands(job, request.number, in_memory=request.config["in_memory"]),
        texts=before.forget.of_texts,
    )


def margins_of(job: Job, before: RequestPredictions, retained: Tensor) -> Margins:
    """The margins of a job; those that it does not give follow from the sizes of the data.

    ``retained`` are the labels of all retained records.
    """
    tested, trained = (
        labels.bincount(minlength=before.test.logits.shape[1])
        for labels in (before.test.labels, retained)
    )
    counted = (tested > 0) & (trained > 0)  # classes of which nothing is retained do not count
    by_size = Margins.by_size(
        forget=len(before.forget.labels),
        unseen=len(before.matched(job.seed)[1].labels),
        test=tested[counted].tolist(),
        train=trained[counted].tolist(),
        accuracy=float(before.val.right.mean()),
    )
    given = {name: getattr(job, f"margin_{name}") for name in asdict(by_size)}
    return Margins(**(asdict(by_size) | {k: v for k, v in given.items() if v is not None}))


def check_earlier_requests(
    ledger: Ledger, model: nn.Module, loaded: ModelAndData, after: RequestPredictions, seed: int
) -> list[EarlierRequest]:
    """The records of earlier requests under the new model: they must stay forgotten."""
    indices = sorted({index for entry in ledger.entries for index in entry.forgotten_indices})
    if not indices:
        return []
    everything = predict_records(model, loaded.train.subset(indices), loaded.cache)
    place_of = {index: place for place, index in enumerate(indices)}
    rows = []
    for entry in ledger.entries:
        predictions = everything.take([place_of[index] for index in entry.forgotten_indices])
        check = check_loss_attack(predictions, after, DELIVERED, seed)
        status: EarlierStatus = "was not achieved"
        if entry.evidence.unlearned:
            status = "still forgotten" if entry.evidence.achieved else "inconclusive"
            if check is not None and check.result == "outside" and check.value > 0.5:
                status = EXPOSED_AGAIN
        rows.append(
            EarlierRequest(
                number=entry.number,
                records=len(entry.forgotten_indices),
                ua=accuracy_interval(predictions),
                check=check,
                status=status,
            )
        )
    return rows


def _kept_of_epoch(row: Mapping[str, Any]) -> dict[str, Any]:
    """What the evidence keeps of an epoch, in three digits: means over the records say no more."""
    kept = {name: value for name, value in row.items() if name in EpochRow.model_fields}
    return {k: float(f"{v:.3g}") if isinstance(v, float) else v for k, v in kept.items()}


def _summary(request: Request, divided: RequestData, judged_before: int | None) -> RequestSummary:
    job, last, chosen = request.job, request.ledger.last, divided.to_forget
    loaded = divided.loaded
    received = None if job.received is None else date.fromisoformat(job.received)
    due = None if received is None else one_month_after(received)
    return RequestSummary(
        number=request.number,
        ids=len(request.requested.ids),
        records=len(chosen),
        copies=len({*chosen} - {*request.requested.indices}),
        share=round(len(chosen) / len(loaded.train), 6),
        source="a file" if job.ids else "given in Python",
        when=request.when,
        ledger=LedgerName(
            id=secrets.token_hex(16), model=loaded.weights_digest, data=loaded.data_digest
        )
        if last is None
        else last.evidence.request.ledger,
        previous=None if last is None else last.head,
        attempt=len(request.attempts) + 1,
        judged_before=judged_before,
        legal_basis=job.legal_basis,
        received=received,
        due=due,
        days_left=None if due is None else (due - date.fromisoformat(request.when[:10])).days,
        skipped=request.requested.skipped,
        unmapped=request.requested.unmapped,
        left_out=sum(map(len, request.requested.left_out.values())),
    )


def one_month_after(day: date) -> date:
    """The same day of the next month, or the last one it has (Regulation 1182/71, Art. 3).

    >>> [str(one_month_after(date(2026, *day))) for day in ((1, 31), (12, 5))]
    ['2026-02-28', '2027-01-05']
    """
    year, month = day.year + day.month // 12, day.month % 12 + 1
    return date(year, month, min(day.day, monthrange(year, month)[1]))


def _limits(divided: RequestData, *, exact: bool) -> list[str]:
    limits = list(TEXT_LIMITS if divided.before.forget.of_texts else LIMITS)
    if exact:
        limits = [EXACT_LIMIT, *(each for each in limits if each not in LIMITS[:3])]
    return limits if compares_all_words(divided.loaded) else [*limits, GIVEN_WORDS]


def repeat_commands(job: Job, number: int, *, in_memory: bool) -> list[str]:
    """Commands that repeat the requests up to this one in a new folder, and one that checks it."""
    root = shlex.quote(str(job.out))
    check = f"expunge verify {root}"
    if not in_memory:
        jobs = (f"{root}/{k:04d}/{JOB}" for k in range(1, number + 1))
        return [*(f"expunge forget --job {path} --ids IDS --out again" for path in jobs), check]
    given = job.model_dump(mode="json", exclude_defaults=True, exclude=FORGET_ARGUMENTS)
    settings = "".join(f", {name}={value!r}" for name, value in given.items())
    return [f'expunge.forget(model=model, data=data, ids=ids, out="again"{settings})', check]
