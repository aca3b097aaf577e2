"""Carry out a deletion request: from ids to an unlearned model and its evidence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import DataError, ExpungeError, InvalidInput
from expunge._files import write_text
from expunge.data import Augment
from expunge.distributed import as_group
from expunge.engine._checkpoint import model_digest
from expunge.methods import MatchUnseen
from expunge.request._attempts import digest_records, earlier_attempts, write_attempt
from expunge.request._id_key import IdKey, create_key, find_key, require_key
from expunge.request._ids import resolve_ids
from expunge.request._job import TEXT_DEFAULTS, Job, make_job
from expunge.request._ledger import SEAL, Ledger, digest_config, digest_of, exclusive_access
from expunge.request._predictions import keep_predictions, predict_once
from expunge.request._signing_keys import SigningKey
from expunge.request._stopwatch import Clocks, RequestStopwatch
from expunge.request.calibrate._run import CalibrationResult, calibrate
from expunge.request.evidence._build import RequestInputs, build_evidence
from expunge.request.evidence._bundle import BundleContents, write_bundle
from expunge.request.evidence._measurements import SplitPredictions
from expunge.request.evidence._schema import Evidence
from expunge.request.evidence._sections import Attempt, Status, Stop
from expunge.request.evidence._times_and_cost import Seconds
from expunge.request.evidence._verdict import AUDIT_PREFIX
from expunge.request.preflight._check import Preflight, preflight
from expunge.request.subject._dataset import InMemoryData
from expunge.request.subject._load import Subject, are_texts, load_subject, make_subject


@dataclass(frozen=True)
class Outcome:
    """How a request ended. Without ``evidence`` it stopped after the preflight."""

    preflight: Preflight
    evidence: Evidence | None = None
    folder: Path | None = None
    model: nn.Module | None = None
    seconds: Seconds | None = None
    """As in the evidence, and with the time that writing the evidence and its page took."""

    @property
    def achieved(self) -> bool:
        """Whether the records were shown to be forgotten."""
        return self.status == "achieved"

    @property
    def head(self) -> str:
        """The hash of the bundle's seal, to be noted elsewhere; empty after the preflight."""
        return "" if self.folder is None else digest_of(self.folder / SEAL)

    @property
    def status(self) -> Status | None:
        """The verdict: achieved, not achieved, or cannot be told; None after the preflight."""
        return None if self.evidence is None else self.evidence.status


def forget(
    *,
    model: nn.Module | str = "",
    weights: str | Path | None = None,
    data: Any = "",
    ids: Sequence[str | int] | str | Path,
    out: str | Path,
    dry_run: bool = False,
    force: bool = False,
    discard: bool = False,
    progress: bool = True,
    sign: str | Path | None = None,
    password: str | None = None,
    **settings: Any,
) -> Outcome:
    """Carry out a deletion request from Python: what ``expunge forget`` does.

    Args:
        model: any ``nn.Module`` with its trained weights, or what ``--model`` takes.
        weights: a file, if ``model`` is a name or a factory.
        data: (train, test) or (train, val, test) of map-style datasets, or what ``--data`` takes;
            of :class:`expunge.TextSet` for a language model.
        ids: indices or names of training records, or a file of them.
        out: the folder of this model's requests.
        dry_run: stop after the preflight; change nothing.
        force: carry on although the model does not seem to fit the data.
        discard: drop what another, unfinished request left behind in ``out``.
        progress: show a progress bar.
        sign: a PEM file of the private key that signs the bundle; needs ``expunge[sign]``.
        password: of that key, if it is encrypted.
        settings: all other fields of :class:`Job`, such as ``lr`` or ``floor``.

    Returns:
        The outcome: ``status``, ``achieved``, ``model``, ``evidence`` (:class:`Evidence`) and
        ``folder``.
    """
    started = Clocks.now()
    if not isinstance(ids, (str, Path, Iterable)):
        raise InvalidInput(f"`ids` should be a list of ids, or a file of them. (got {ids!r})")
    listed_ids = None if isinstance(ids, (str, Path)) else list(ids)
    in_memory = isinstance(model, nn.Module)
    if are_texts(data):
        settings = TEXT_DEFAULTS | settings
    if in_memory == (weights is not None):
        raise InvalidInput("Give a trained `model`, or `weights` with a name or factory for it.")
    if not in_memory and not isinstance(data, str):
        raise InvalidInput(
            "Data in memory go with a `model` in memory: load the weights into it first. "
            f"(got data of type {type(data).__name__} with `weights`)"
        )
    job = make_job(
        model="" if in_memory else model,
        data=data if isinstance(data, str) else "",
        weights=Path(weights or "in memory"),
        ids=None if listed_ids else Path(str(ids)),
        out=Path(out),
        **settings,
    )
    subject = make_subject(model, data, job) if isinstance(model, nn.Module) else None
    return carry_out(
        job,
        subject,
        ids=listed_ids,
        dry_run=dry_run,
        force=force,
        discard=discard,
        progress=progress,
        key=None if sign is None else SigningKey.load(sign, password),
        started=started,
    )


def carry_out(
    job: Job,
    subject: Subject | None = None,
    *,
    ids: Sequence[str | int] | None = None,
    dry_run: bool = False,
    force: bool = False,
    discard: bool = False,
    on_message: Callable[[str], None] = lambda message: None,
    on_preflight: Callable[[Preflight], None] = lambda findings: None,
    progress: bool = True,
    key: SigningKey | None = None,
    started: Clocks | None = None,
) -> Outcome:
    """Carry out ``job`` with exclusive access to its folder; if killed, the same call resumes it.

    ``subject`` and ``ids`` replace the model, the data and the file of ids that ``job`` names.
    ``on_message`` is called with what is being done, ``on_preflight`` with the findings of the
    preflight, before anything is changed. ``key`` signs the bundle. The request's time counts from
    ``started`` (default: now). See :func:`forget` for the other arguments.
    """
    stopwatch = RequestStopwatch(started or Clocks.now())
    group = as_group("auto")
    if group:
        raise InvalidInput(
            "A deletion request is the work of one process; leave the process group first, or "
            f"start it without torchrun. (got {group.size} processes)"
        )
    with exclusive_access(job.out):
        request = _RequestInProgress(job, subject, ids, on_message, progress, stopwatch, key)
        return request.run(on_preflight, dry_run=dry_run, force=force, discard=discard)


class _RequestInProgress:
    """One request while it is carried out.

    ``requested`` are the records that the ids stand for. ``work`` is a folder for the checkpoint of
    the run; it is removed when the bundle is complete.
    """

    def __init__(
        self,
        job: Job,
        subject: Subject | None,
        ids: Sequence[str | int] | None,
        on_message: Callable[[str], None],
        progress: bool,
        stopwatch: RequestStopwatch,
        key: SigningKey | None,
    ) -> None:
        self.job, self.on_message, self.progress = job, on_message, progress
        self.in_memory, self.key = subject is not None, key
        self.ledger = Ledger.read(job.out)
        self.subject = self.ledger.latest_state_of(subject or load_subject(job))
        if self.ledger.entries:
            id_key = require_key(job.id_key)
            self.ledger = self.ledger.unlocked(id_key, len(self.subject.train))
        self.requested = resolve_ids(job, self.subject, ids)
        self.stopwatch = stopwatch
        stopwatch.loaded()
        self.work = job.out / ".work"
        self.checkpoint = self.work / "run.checkpoint"

    @property
    def number(self) -> int:
        return len(self.ledger.entries) + 1

    def run(
        self,
        on_preflight: Callable[[Preflight], None],
        *,
        dry_run: bool,
        force: bool,
        discard: bool,
    ) -> Outcome:
        # Leave out what earlier requests have forgotten.
        to_forget, earlier = self.ledger.still_to_forget(self.requested.indices)
        if already_forgotten := len(self.requested.indices) - len(to_forget):
            self.on_message(
                f"{already_forgotten} of the records were forgotten before, and are left out here."
            )

        # Preflight: the last moment to stop without a trace.
        with self.stopwatch.time("preflight"):
            findings = preflight(
                self.subject, self.requested, self.job, earlier=earlier, progress=self.on_message
            )
        on_preflight(findings)
        if dry_run:
            return Outcome(findings)
        if not findings.fits and not force:
            raise DataError(
                "The model does not seem to fit the data: "
                + " ".join(findings.warnings)
                + " If model and data are right as they are, use --force."
            )
        to_forget = self._add_duplicates(to_forget, findings, earlier)

        # Unlearn, from a checkpoint if this request was killed before.
        id_key = self._id_key()
        asked = self.requested.hashed(id_key).digest
        config = self._config(len(to_forget))
        run = self._claim_work_folder(config, asked, discard=discard)
        weights = model_digest(self.subject.model)
        attempts = earlier_attempts(self.ledger, asked, weights, run)
        records = digest_records(asked, weights)
        write_attempt(records, run, self.job.seed, "not finished")
        train = self.subject.train
        gone = earlier | set(to_forget)
        retain = train.subset([i for i in range(len(train)) if i not in gone])
        forget = train.subset(to_forget)
        before = self._predictions_before(findings, forget, to_forget, gone)
        with self.stopwatch.time("unlearning"), self._kept_only_if_started():
            calibrated = self._unlearn(forget, retain)

        # Audit on test data, which took no part in any decision so far.
        inputs = RequestInputs(
            self.job,
            self.subject,
            self.requested,
            id_key,
            self.ledger,
            config,
            self.in_memory,
            attempts,
        )
        with self.stopwatch.time("audit"):
            calibrated, evidence, attempt = self._audit(
                inputs, findings, to_forget, calibrated, forget, retain, before
            )

        # Write the bundle; only then is the checkpoint dispensable.
        contents = BundleContents(
            calibrated.model,
            attempt,
            self.job,
            self.requested,
            id_key,
            tuple(to_forget),
            self.subject.card,
            self.key,
        )
        folder = self.job.out / f"{self.number:04d}"
        evidence = write_bundle(folder, evidence, contents, self.stopwatch.seconds)
        shutil.rmtree(self.work, ignore_errors=True)
        write_attempt(records, run, self.job.seed, evidence.status)
        return Outcome(findings, evidence, folder, calibrated.model, self.stopwatch.seconds())

    def _id_key(self) -> IdKey:
        """The key that ids are hashed with; made now, if this is its first use."""
        key = find_key(self.job.id_key)
        if key is None:
            key = create_key(self.job.id_key)
            self.on_message(
                f"Wrote the id key {key.path}. Ids are written as hashes made with it: keep it, "
                "apart from the evidence. Later requests and looking somebody up need it."
            )
        return key

    def _predictions_before(
        self,
        findings: Preflight,
        forget: InMemoryData,
        to_forget: Sequence[int],
        gone: Collection[int],
    ) -> SplitPredictions:
        """What the given model predicts, known from the preflight; the run need not ask again."""
        model, train = self.subject.model, findings.predictions["train"]
        retained = [i for i in range(len(self.subject.train)) if i not in gone]
        before = SplitPredictions(
            forget=train.take(to_forget),
            val=findings.predictions["val"],
            retain=train.take(retained),
            test=findings.predictions["test"],
        )
        keep_predictions(model, forget, before.forget)
        keep_predictions(model, self.subject.val, before.val)
        return before

    def _add_duplicates(
        self, to_forget: list[int], findings: Preflight, earlier: set[int]
    ) -> list[int]:
        """The records to forget, with the duplicates that the job includes."""
        duplicates = findings.duplicates.to_include(self.job.include_duplicates)
        if duplicates:
            self.on_message(f"{len(duplicates)} duplicates of these records are also forgotten.")
            to_forget = sorted({*to_forget, *(duplicate.index for duplicate in duplicates)})
        if len(to_forget) + len(earlier) >= len(self.subject.train):
            raise InvalidInput(
                "Some records should be left to retain. (with duplicates, all are to be forgotten) "
                "Leave out --include-duplicates."
            )
        return to_forget

    def _config(self, forgotten: int) -> dict[str, Any]:
        return self.job.model_dump(mode="json") | {
            "in_memory": self.in_memory,
            "out": str(self.job.out),
            "number": self.number,
            "forgotten": forgotten,
        }

    def _claim_work_folder(self, config: Mapping[str, Any], asked: str, *, discard: bool) -> str:
        """Mark the work folder with this request's digest, or check that it is this request's.

        Returns the digest.
        """
        mark = self.work / "request.sha256"
        digest = digest_config(config, asked, self.subject.weights_digest)
        if discard:
            shutil.rmtree(self.work, ignore_errors=True)
        if mark.is_file() and mark.read_text(encoding="utf-8") != digest:
            raise InvalidInput(
                f"Another request in {self.job.out} is not finished. Repeat its command to finish "
                "it, or drop what it has done with --discard."
            )
        write_text(mark, digest, private=True)
        return digest

    @contextmanager
    def _kept_only_if_started(self) -> Iterator[None]:
        """Remove the work folder if unlearning was refused before there was anything to resume."""
        try:
            yield
        except ExpungeError:
            if not self.checkpoint.exists():
                shutil.rmtree(self.work, ignore_errors=True)
            raise

    def _unlearn(self, forget: InMemoryData, retain: InMemoryData) -> CalibrationResult:
        """Unlearn until the records look unseen; resumes from a checkpoint, if there is one."""
        job, subject = self.job, self.subject
        procedure = job.procedure
        if isinstance(procedure.method, MatchUnseen) and subject.flip:
            # Whether a mirror image keeps its label is known of the data, augmented or not.
            procedure = replace(procedure, method=replace(procedure.method, views="mirrored"))
        return calibrate(
            subject.model,
            forget=forget,
            retain=retain,
            val=subject.val,
            procedure=procedure,
            floor=job.floor,
            level=job.level,
            seed=job.seed,
            device=job.device,
            augment=Augment(padding=4, flip=subject.flip) if job.augment else None,
            checkpoint=self.checkpoint,
            progress=self.progress,
            callbacks=[self.stopwatch.steps],
        )

    def _audit(
        self,
        inputs: RequestInputs,
        findings: Preflight,
        to_forget: Sequence[int],
        calibrated: CalibrationResult,
        forget: InMemoryData,
        retain: InMemoryData,
        before: SplitPredictions,
    ) -> tuple[CalibrationResult, Evidence, nn.Module | None]:
        """Build the evidence; a run that did not achieve its aim is undone.

        Where that cannot be told, the model is kept: it did the work, and broke nothing.
        The last of the three is the model of such a run: to look at, not to use.
        """
        subject = self.subject
        after = before
        if calibrated.stopped.epoch:
            after = SplitPredictions(
                forget=predict_once(calibrated.model, forget),
                val=predict_once(calibrated.model, subject.val),
                retain=predict_once(calibrated.model, retain),
                test=predict_once(calibrated.model, subject.test),
            )
        evidence = build_evidence(inputs, findings, to_forget, calibrated, before, after)
        if evidence.unlearned or not calibrated.stopped.epoch:
            return calibrated, evidence, None
        attempt = Attempt(
            stopped=evidence.stopped,
            metrics=evidence.metrics,
            attacks=evidence.attacks,
            floors=evidence.floors,
        )
        # What spoke against the model, and what to try next, is known from the attempt alone.
        kept = {name: getattr(evidence.verdict, name) for name in ("objections", "next_steps")}
        undone = _undo(calibrated, subject.model, evidence)
        unchanged = [row.model_copy(update={"after": row.before}) for row in evidence.attacks]
        evidence = build_evidence(inputs, findings, to_forget, undone, before, before, unchanged)
        verdict = evidence.verdict.model_copy(update=kept)
        update = {"attempt": attempt, "verdict": verdict}
        return undone, evidence.model_copy(update=update), calibrated.model


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
    stopped = Stop(epoch=0, reason=reason, status="not achieved")
    return replace(calibrated, model=model, stopped=stopped)
