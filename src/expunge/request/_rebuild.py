"""Build the evidence of a request again, from its weights and the data, and compare every field."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pydantic
from torch import nn

from expunge import __version__
from expunge import _tensors as tensors
from expunge._errors import DataError, InvalidInput
from expunge._files import is_there, read_text
from expunge._strict_json import read_json
from expunge.engine import History
from expunge.request._compare_trees import compare_trees
from expunge.request._examination import Examination, examine, with_duplicates
from expunge.request._id_key import IdKey
from expunge.request._ids import RequestedRecords
from expunge.request._job import Job
from expunge.request._job_file import CARD_FIELDS, JOB
from expunge.request._ledger import EVIDENCE, RECORDS, WEIGHTS, Ledger, LedgerEntry
from expunge.request._seal import ATTEMPT, PREFLIGHT, THUMBNAILS
from expunge.request.calibrate._comparison import compare
from expunge.request.calibrate._run import CalibrationResult, kept_indices, look_at_val
from expunge.request.calibrate._target import ClassCounts, estimate_target
from expunge.request.evidence._build import RequestInputs, conclude
from expunge.request.evidence._bundle import (
    card_after,
    forgotten_records,
    preflight_file,
    shown_files,
)
from expunge.request.evidence._schema import Evidence
from expunge.request.evidence._sections import Stop
from expunge.request.preflight._check import preflight
from expunge.request.preflight._cost import Cost
from expunge.request.subject._load import Subject

NOT_RECOMPUTED: dict[str, tuple[str, ...]] = {
    "times and costs": ("request.when", "seconds", "cost", "preflight.cost"),
    "versions and hardware": ("environment",),
    "the course of the run (epochs, steps, warnings, why it stopped)": (
        "epochs",
        "steps",
        "stopped.epoch",
        "stopped.reason",
        "stopped.warnings",
        "attempt.stopped.epoch",
        "attempt.stopped.reason",
        "attempt.stopped.warnings",
    ),
    "how ids were listed": (
        "request.source",
        "request.skipped",
        "request.unmapped",
        "preflight.ids.skipped",
        "preflight.ids.unmapped",
        "preflight.ids.twice",
    ),
    "earlier attempts": ("attempts",),
    "notes about the inputs": ("preflight.notes",),
    "what to try next": ("verdict.next_steps",),
    "settings of the run (such as the method)": (),
    "figures": (),
}
"""What of the evidence neither weights nor data tell, by what it is called, and its fields.

The rest of the evidence is computed with these and all settings as they are stated, and compared.
"""
ELSEWHERE = ("files", "signed_by", "request.ledger.id")
"""Fields that the seal, the signature and the chain of requests are about."""
OF_THE_REQUEST = ("in_memory", "out", "number", "forgotten")
"""What a configuration has besides the settings of a job."""


class CannotRebuild(DataError):
    """Something that the evidence was made from is gone."""


@dataclass(frozen=True)
class Rebuilt:
    """What is not as stated, in sentences, and what could not be compared."""

    problems: list[str] = field(default_factory=list)
    not_compared: list[str] = field(default_factory=list)


def compare_with_rebuilt(
    entry: LedgerEntry, earlier: Ledger, subject: Subject, key: IdKey
) -> Rebuilt:
    """Build what the bundle of a request says from its weights and ``subject``, and compare it.

    ``earlier`` are the requests before it; ``key`` tells which records its hashes stand for.
    """
    evidence, job = entry.evidence, _recorded_job(entry)
    requested = RequestedRecords(
        indices=entry.asked,
        ids=entry.requested.ids,
        by_id={},
        repeated=_count(evidence, "twice"),
        skipped=evidence.request.skipped,
        unmapped=evidence.request.unmapped,
        unseen=entry.unseen,
    )

    # The model and the data as they were before, the records, and what the model made of them.
    subject = _before(entry, earlier, subject).without_unseen(requested.unseen)
    if job.inputs is not None:
        subject = subject.with_inputs(job.inputs)
    to_forget, gone = earlier.still_to_forget(requested.indices)
    cost = _stated_cost(evidence)
    findings = preflight(subject, requested, job, earlier=gone, cost=cost)
    include, records = job.include_duplicates, len(subject.train)
    to_forget = with_duplicates(to_forget, findings, include, gone, records)
    examination = examine(subject, findings, to_forget, gone)

    # The evidence, of the model that was judged then.
    inputs = RequestInputs(
        job,
        requested,
        entry.requested,
        key,
        earlier,
        _config(job, entry, len(to_forget)),
        evidence.in_memory,
        evidence.attempts,
    )
    result = _stated_run(entry, examination, job)
    conclusion = conclude(inputs, examination, result, advise=False)
    state, notes = tensors.load(entry.folder / WEIGHTS)
    hashes = conclusion.evidence.hashes.model_copy(
        update={"weights_after": tensors.state_digest(state)}
    )
    rebuilt = conclusion.evidence.model_copy(update={"hashes": hashes})

    # All that the bundle holds against all that it should.
    stated = read_json(entry.folder / EVIDENCE)
    left_out = [*ELSEWHERE, *(path for paths in NOT_RECOMPUTED.values() for path in paths)]
    differences = [
        *(str(each) for each in compare_trees(stated, _plain(rebuilt.as_json()), left_out)),
        *_other_files(entry, inputs, to_forget, conclusion.examples),
        *(f"the card of {each}" for each in compare_trees(
            notes, _plain(card_after(subject.card, rebuilt)), path=WEIGHTS
        )),
    ]  # fmt: skip
    if not rebuilt.unlearned and hashes.weights_after != hashes.weights_before:
        differences.append(f"{WEIGHTS} is not the model as it was before the request")
    return _with_shown_files(entry, Rebuilt(differences))


def _recorded_job(entry: LedgerEntry) -> Job:
    config = entry.evidence.config
    settings = {name: value for name, value in config.items() if name not in OF_THE_REQUEST}
    try:
        return Job.recorded(settings | {"out": config.get("out")})
    except InvalidInput as error:
        raise DataError(
            f"The configuration of request {entry.number} is damaged: {error}"
        ) from error


def _config(job: Job, entry: LedgerEntry, forgotten: int) -> dict[str, Any]:
    return job.model_dump(mode="json", exclude={"ids"}) | {
        "in_memory": entry.evidence.in_memory,
        "out": str(job.out),
        "number": entry.number,
        "forgotten": forgotten,
    }


def _count(evidence: Evidence, name: str) -> int:
    count = evidence.preflight.ids.get(name, 0)
    if not isinstance(count, int):
        raise DataError(f"preflight.ids.{name} should be a number. (got {count!r})")
    return count


def _stated_cost(evidence: Evidence) -> Cost:
    try:
        return pydantic.TypeAdapter(Cost).validate_python(asdict(Cost(**evidence.preflight.cost)))
    except (TypeError, ValueError) as error:
        raise DataError(f"preflight.cost is damaged: {error}.") from error


def _before(entry: LedgerEntry, earlier: Ledger, subject: Subject) -> Subject:
    """The subject with the weights that the request started with."""
    if earlier.last is not None:
        return _with_weights(subject, earlier.last.folder / WEIGHTS)
    if subject.weights_digest != entry.evidence.hashes.weights_before:
        raise CannotRebuild("the weights from before the first request are not here (--weights)")
    return subject


def _with_weights(subject: Subject, path: Path) -> Subject:
    if not path.is_file():
        raise CannotRebuild(f"{path.parent.name}/{path.name} is gone")
    return subject.with_weights(path)


def _stated_run(entry: LedgerEntry, examination: Examination, job: Job) -> CalibrationResult:
    """The run as it is stated, with the model in the bundle, and whether that satisfies val."""
    evidence, subject, before = entry.evidence, examination.subject, examination.before
    discarded = evidence.attempt is not None
    if is_there(entry.folder / ATTEMPT) and not discarded:
        raise DataError(f"{ATTEMPT} is there, and the evidence has no attempt.")
    stated = evidence.stopped if evidence.attempt is None else evidence.attempt.stopped
    model: nn.Module = subject.model
    if stated.epoch:
        name = ATTEMPT if discarded else WEIGHTS
        model = _with_weights(subject, entry.folder / name).model
    after = examination.predict(model) if stated.epoch else before
    level, seed = job.level, job.seed
    labels = before.forget.labels, before.retain.labels
    target = estimate_target(before.val, *labels, level=level)
    initial = compare(before.forget, before.val, target, level=level, seed=seed)
    kept = None
    if before.forget.of_texts:
        chosen = kept_indices(len(before.retain.labels))
        kept = before.retain.take(chosen), after.retain.take(chosen)
    counts = ClassCounts.of(before.val, *labels)
    splits = after.forget, after.val, before.val
    look = look_at_val(*splits, target, initial, counts, job.floor, level, seed, kept)
    arrived = look.comparison.indistinguishable and not look.broken
    stopped = Stop(
        epoch=stated.epoch,
        reason=stated.reason,
        status="achieved" if arrived else "not achieved",
        warnings=stated.warnings,
    )
    return CalibrationResult(
        model=model,
        history=History(),
        epochs=[],
        stopped=stopped,
        target=target,
        before=initial,
        after=look.comparison,
    )


def _other_files(
    entry: LedgerEntry, inputs: RequestInputs, to_forget: list[int], examples: Any
) -> list[str]:
    """What is wrong with the files that hold more than the evidence."""
    folder = entry.folder
    stated, found = read_json(folder / RECORDS), forgotten_records(inputs, to_forget)
    problems = [f"{RECORDS}: {each}" for each in compare_trees(stated, found)]
    if is_there(folder / THUMBNAILS):
        rows = _plain([row.model_dump(mode="json") for row in examples])
        found_rows = compare_trees(read_json(folder / THUMBNAILS), rows, ["*.id"])
        problems += [f"{THUMBNAILS}: {each}" for each in found_rows]
    if not entry.evidence.in_memory:
        problems += [f"{JOB}: {each}" for each in _job_file_problems(folder / JOB, inputs.config)]
    return problems


def _job_file_problems(path: Path, config: Mapping[str, Any]) -> list[str]:
    """What the job file says otherwise than the configuration; where it lies is not compared."""
    try:
        stated = tomllib.loads(read_text(path, "UTF-8 TOML"))
    except tomllib.TOMLDecodeError as error:
        return [f"it is not valid TOML: {error}."]
    found = {
        name: value
        for name, value in config.items()
        if value is not None and name not in {*OF_THE_REQUEST, *(CARD_FIELDS - stated.keys())}
    }
    found = {name: value for name, value in found.items() if value != {} or name in stated}
    return [str(each) for each in compare_trees(stated, found, ["out"])]


def _with_shown_files(entry: LedgerEntry, rebuilt: Rebuilt) -> Rebuilt:
    """The result, and whether the page, the letters and the model card show the stated evidence."""
    evidence, folder = entry.evidence, entry.folder
    rows = read_json(folder / THUMBNAILS) if is_there(folder / THUMBNAILS) else []
    shown = shown_files(evidence, entry.digest, rows)
    shown[PREFLIGHT] = preflight_file(evidence)
    written_by = evidence.environment.get("versions", {}).get("expunge")
    for name, content in shown.items():
        path = folder / name
        if not is_there(path) or read_text(path, "UTF-8") == content:
            continue
        if written_by == __version__:
            rebuilt.problems.append(f"{name} does not show what {EVIDENCE} says")
        else:
            rebuilt.not_compared.append(
                f"{name} was written by expunge {written_by}, which shows evidence in another way "
                f"than {__version__}"
            )
    return rebuilt


def _plain(values: Any) -> Any:
    """Values as JSON has them: lists for tuples, and names for keys."""
    return json.loads(json.dumps(values))
