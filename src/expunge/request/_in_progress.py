"""A deletion request while it is carried out: from ids to an unlearned model and its evidence."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import DataError, InvalidInput
from expunge.data import Examples
from expunge.request._attempts import digest_records, earlier_attempts, write_attempt
from expunge.request._forgetting import forget_for
from expunge.request._head_file import require_all, write_head
from expunge.request._id_key import IdKey, create_key, find_key, require_key
from expunge.request._ids import resolve_ids
from expunge.request._job import Job
from expunge.request._ledger import SEAL, Ledger, digest_config, digest_of
from expunge.request._predictions import (
    keep_predictions,
    predict_records,
    predict_relearned,
    predict_splits,
)
from expunge.request._signing_keys import SigningKey
from expunge.request._stopwatch import RequestStopwatch
from expunge.request._work_folder import WorkFolder
from expunge.request.evidence._build import (
    Judged,
    RequestInputs,
    build_evidence,
    kept_examples,
)
from expunge.request.evidence._bundle import BundleContents, write_bundle
from expunge.request.evidence._measurements import SplitPredictions
from expunge.request.evidence._schema import Evidence
from expunge.request.evidence._sections import Status
from expunge.request.evidence._times_and_cost import Seconds
from expunge.request.preflight._check import Preflight, preflight
from expunge.request.subject._comparable import compares_all_words, with_comparable_answers
from expunge.request.subject._inputs import IN_WORDS
from expunge.request.subject._load import Subject, load_subject


@dataclass(frozen=True)
class Outcome:
    """How a request ended. Without ``evidence`` it stopped after the preflight."""

    preflight: Preflight | None
    """None if the bundle was there already, and only its command had been killed."""
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
        """The verdict: achieved, not achieved or inconclusive; None after the preflight."""
        return None if self.evidence is None else self.evidence.status


class RequestInProgress:
    """One request while it is carried out; ``requested`` are the records that the ids stand for."""

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
        find_key(job.id_key)  # refused now, if it cannot be read, and not after the preflight
        self.job, self.on_message, self.progress = job, on_message, progress
        self.in_memory, self.key = subject is not None, key
        self.ledger = Ledger.read(job.out)
        require_all(self.ledger)
        subject = subject or load_subject(job)
        if job.inputs is None and subject.inputs and self.ledger.last is not None:
            form = self.ledger.last.evidence.config.get("inputs")
            if form in IN_WORDS:  # as in the request before
                self.job = job.model_copy(update={"inputs": form})
                subject = subject.with_inputs(form)
        self.subject = self.ledger.latest_state_of(subject)
        if self.ledger.entries:
            id_key = require_key(job.id_key)
            self.ledger = self.ledger.unlocked(id_key, **self.subject.sizes)
        self.requested = resolve_ids(job, self.subject, ids)
        if self.ledger.last is not None:
            self.requested = self.requested.without_unseen(self.ledger.last.unseen)
        self.subject = self.subject.without_unseen(self.requested.unseen)
        self.stopwatch = stopwatch
        stopwatch.loaded()
        self.work = WorkFolder(job.out)

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
        # Killed when the bundle was there already: nothing is left to do but to tidy up.
        if not dry_run and (finished := self._finish_killed()) is not None:
            return finished

        # Leave out what earlier requests have forgotten.
        to_forget, earlier = self.ledger.still_to_forget(self.requested.indices)
        if already_forgotten := len(self.requested.indices) - len(to_forget):
            self.on_message(
                f"{already_forgotten} of the records were forgotten before, and are left out here."
            )

        # Preflight: the last moment to stop without a trace.
        with self.stopwatch.time("preflight"):
            findings = self._preflight(earlier)
            correction = findings.fit.correction
            if correction is not None and self.subject.inputs and self.job.inputs is None:
                form, why = correction
                note = f"{why} So it gets the images {IN_WORDS[form]} (--inputs {form})."
                self.on_message(note)
                self.subject = self.subject.with_inputs(form, note)
                findings = self._preflight(earlier)
        if self.subject.inputs:
            self.job = self.job.model_copy(update={"inputs": self.subject.inputs})
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
        self.subject = with_comparable_answers(self.subject, to_forget, earlier)
        if not compares_all_words(self.subject):
            self.on_message(
                "Others about the same people are retained, and the unseen records are about "
                "strangers: answers are compared without the words of their questions."
            )

        # Unlearn, from a checkpoint if this request was killed before.
        id_key = self._id_key()
        asked = self.requested.hashed(id_key).digest
        config = self._config(len(to_forget))
        run = digest_config(config, asked, self.subject.weights_digest)
        self.work.claim(run, discard=discard)
        weights = self.subject.weights_digest
        attempts = earlier_attempts(self.ledger, asked, weights, run)
        write_attempt(digest_records(asked, weights), run, self.job.seed, "not finished")
        train = self.subject.train
        gone = earlier | set(to_forget)
        retain = train.subset([i for i in range(len(train)) if i not in gone])
        forget = train.subset(to_forget)
        before = self._predictions_before(findings, forget, to_forget, gone)
        with self.stopwatch.time("unlearning"), self.work.kept_only_if_started():
            result = forget_for(
                self.job,
                self.subject,
                forget,
                retain,
                checkpoint=self.work.checkpoint,
                progress=self.progress,
                callbacks=[self.stopwatch.steps],
            )

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
            model, after = result.model, before
            if result.stopped.epoch:
                after = predict_splits(model, self.subject, forget, retain)
            relearned = predict_relearned(model, self.subject, forget, retain, self.job.seed)
            judged = Judged(
                result.model,
                result.stopped,
                to_forget,
                self.ledger.entries,
                before,
                after,
                relearned,
            )
            evidence = build_evidence(inputs, findings, result, judged)

        # Write the bundle; only then is the checkpoint dispensable. A model that was not judged
        # good enough is kept to look at, and the one from before is delivered.
        delivered = evidence.unlearned and bool(result.stopped.epoch)
        model = result.model if delivered else self.subject.model
        contents = BundleContents(
            model,
            None if delivered or not result.stopped.epoch else result.model,
            self.job,
            self.requested,
            id_key,
            tuple(to_forget),
            self.subject.card,
            self.key,
            kept_examples(inputs, to_forget, before, after),
        )
        folder = self.job.out / f"{self.number:04d}"
        evidence = write_bundle(folder, evidence, contents, self.stopwatch.seconds)
        self._tidy_up(run, evidence)
        return Outcome(findings, evidence, folder, model, self.stopwatch.seconds())

    def _preflight(self, earlier: set[int]) -> Preflight:
        return preflight(
            self.subject, self.requested, self.job, earlier=earlier, progress=self.on_message
        )

    def _tidy_up(self, run: str, evidence: Evidence) -> None:
        """What comes after the bundle: note the head and the attempt, remove the checkpoint."""
        write_head(Ledger.read(self.job.out))
        records = digest_records(evidence.hashes.ids, evidence.hashes.weights_before)
        write_attempt(records, run, evidence.seeds.get("run", 0), evidence.status)
        self.work.remove()

    def _finish_killed(self) -> Outcome | None:
        """Tidy up after a request that was killed when its bundle was there already.

        Returns its outcome if this is the same request; another one is carried out now.
        """
        last = self.ledger.last
        if last is None or self.work.request is None:
            return None
        evidence = last.evidence
        hashes, config = evidence.hashes, evidence.config
        run = digest_config(config, hashes.ids, hashes.weights_before)
        if self.work.request != run:
            return None
        self._tidy_up(run, evidence)
        same = self._config(config.get("forgotten", 0)) | {"number": last.number}
        asked = self.requested.hashed(require_key(self.job.id_key)).digest
        if digest_config(same, asked) != digest_config(config, hashes.ids):
            return None
        self.on_message(f"Request {last.number} was complete when its command was killed.")
        return Outcome(None, evidence, last.folder, self.subject.model, evidence.seconds)

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
        forget: Examples,
        to_forget: Sequence[int],
        gone: Collection[int],
    ) -> SplitPredictions:
        """What the given model predicts, known from the preflight; the run need not ask again."""
        model, known = self.subject.model, findings.predictions
        if not compares_all_words(self.subject):  # the preflight looks at whole answers
            known = {name: predict_records(model, getattr(self.subject, name)) for name in known}
        train = known["train"]
        retained = [i for i in range(len(self.subject.train)) if i not in gone]
        before = SplitPredictions(
            forget=train.take(to_forget),
            val=known["val"],
            retain=train.take(retained),
            test=known["test"],
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
        return self.job.model_dump(mode="json", exclude={"ids"}) | {
            "in_memory": self.in_memory,
            "out": str(self.job.out),
            "number": self.number,
            "forgotten": forgotten,
        }
