"""A deletion request while it is carried out: from ids to an unlearned model and its evidence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import DataError, ExpungeError, InvalidInput
from expunge._files import write_text
from expunge._repr import ReadableRepr, ReprParts
from expunge.evidence import ACCURACY_COLUMNS, Evidence, Seconds, Status
from expunge.ledger import (
    DISCARDED,
    SEAL,
    Ledger,
    SigningKey,
    create_id_key,
    digest_config,
    digest_of,
    find_id_key,
    require_all,
    require_id_key,
    write_ledger_head,
)
from expunge.request._bundle import write_bundle
from expunge.request._forgetting import ForgettingResult, forget_records
from expunge.request._ids import resolve_ids
from expunge.request._job import Job
from expunge.request._job_file import job_values
from expunge.request._stopwatch import RequestStopwatch
from expunge.request.loading._load import ModelAndData, load_model_and_data
from expunge.request.loading._texts import compares_all_words
from expunge.request.preflight._preflight import Preflight, preflight
from expunge.request.verdict._build import Request, conclude, config_of
from expunge.request.verdict._measurements import RequestData, divide_for_request


@dataclass(frozen=True, repr=False)
class Outcome(ReadableRepr):
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

    def _repr_parts(self) -> ReprParts:
        if self.evidence is None:
            fits = self.preflight is not None and self.preflight.fits
            found = "fits" if fits else "does not fit"
            return ReprParts(f"Outcome(only checked: the model {found} the data)", (), ())
        line = f"{self.status}: {self.evidence.verdict.headline} See {self.folder}/report.html"
        rows, epochs = self.evidence.accuracies, self.evidence.epochs
        losses = {n: [getattr(row, n) for row in epochs] for n in ("objective", "constraint")}
        return ReprParts(f"Outcome({line})", ACCURACY_COLUMNS, rows, losses)


class RequestRunner:
    """One request while it is carried out; ``requested`` are the records that the ids stand for."""

    def __init__(
        self,
        job: Job,
        loaded: ModelAndData | None,
        ids: Sequence[str | int] | None,
        on_message: Callable[[str], None],
        progress: bool,
        stopwatch: RequestStopwatch,
        key: SigningKey | None,
    ) -> None:
        find_id_key(job.id_key)  # refused now, if it cannot be read, and not after the preflight
        self.job, self.on_message, self.progress = job, on_message, progress
        self.in_memory, self.key = loaded is not None, key
        self.ledger = Ledger.read(job.out)
        require_all(self.ledger)
        loaded = loaded or load_model_and_data(job)
        if loaded.input_form:
            form = job.inputs or loaded.input_form
            if job.inputs is None and self.ledger.last is not None:  # as in the request before
                form = self.ledger.last.evidence.config.get("inputs", form)
            loaded = loaded.with_inputs(form)
            self.job = job.model_copy(update={"inputs": form})
        self.loaded = self.ledger.latest_state_of(loaded)
        if self.ledger.entries:
            id_key = require_id_key(job.id_key)
            self.ledger = self.ledger.unlocked(id_key, **self.loaded.sizes)
        self.requested = resolve_ids(job, self.loaded, ids)
        if self.ledger.last is not None:
            self.requested = self.requested.leaving_out(self.ledger.last.left_out)
        self.loaded = self.loaded.leaving_out(self.requested.left_out)
        self.stopwatch = stopwatch
        stopwatch.end_loading()
        self.work = WorkFolder(job.out)

    def run(
        self,
        on_preflight: Callable[[Preflight], None],
        *,
        dry_run: bool = False,
        force: bool = False,
        discard: bool = False,
        judge_discarded: bool = False,
    ) -> Outcome:
        # Killed after its bundle was written: only tidying up remains.
        if not dry_run and (finished := self._finish_killed()) is not None:
            return finished
        rejudged = self._discarded_before() if judge_discarded else None

        # Leave out what earlier requests have forgotten.
        to_forget, earlier = self.ledger.still_to_forget(self.requested.indices)
        if already_forgotten := len(self.requested.indices) - len(to_forget):
            self.on_message(
                f"{already_forgotten} of the records were forgotten before, and are left out here."
            )

        # Preflight: the last moment to stop without a trace.
        with self.stopwatch.time("preflight"):
            found = preflight(
                self.loaded,
                self.requested,
                to_forget,
                self.job,
                earlier=earlier,
                progress=self.on_message,
            )
        on_preflight(found)
        if dry_run:
            return Outcome(found)
        if not found.fits and not force:
            raise DataError(
                "The model does not seem to fit the data: "
                + " ".join(found.findings.fit.reasons)
                + " If model and data are right as they are, use --force."
            )
        divided = divide_for_request(
            self.loaded, found, to_forget, earlier, include_duplicates=self.job.include_duplicates
        )
        if added := len(divided.to_forget) - len(to_forget):
            self.on_message(f"{added} duplicates of these records are also forgotten.")
        if not compares_all_words(divided.loaded):
            self.on_message(
                "Others about the same people are retained, and the unseen records are about "
                "strangers: answers are compared without the words of their questions."
            )

        # Unlearn, from a checkpoint if this request was killed before; or take the last attempt.
        request = self._begin_request(divided, discard=discard)
        with self.stopwatch.time("unlearning"), self.work.kept_only_if_started():
            result = rejudged or forget_records(
                self.job,
                divided.loaded,
                divided.forget,
                divided.retain,
                checkpoint=self.work.checkpoint,
                progress=self.progress,
                callbacks=[self.stopwatch],
            )

        # Judge on test data, which took no part in any decision so far.
        with self.stopwatch.time("audit"):
            evidence = conclude(request, divided, result)

        # Write the bundle; only then is the checkpoint dispensable.
        folder = self.job.out / f"{request.number:04d}"
        seconds = self.stopwatch.seconds
        evidence = write_bundle(folder, request, divided, result.model, evidence, self.key, seconds)
        self._tidy_up()
        model = result.model if evidence.unlearned else divided.loaded.model
        return Outcome(found, evidence, folder, model, seconds())

    def _discarded_before(self) -> ForgettingResult:
        """The model that the last request discarded, if only margins have changed since."""
        last = self.ledger.last
        if last is None or not last.evidence.discarded:
            raise InvalidInput(
                f"--judge-discarded takes the model that the last request in {self.job.out} "
                "discarded, and there is none. Run the request without it."
            )
        evidence, path = last.evidence, last.folder / DISCARDED
        config = self._config(last.number)
        names = sorted(config.keys() | evidence.config.keys())
        changed = [name for name in names if config.get(name) != evidence.config.get(name)]
        if self.requested.hashed(require_id_key(self.job.id_key)).digest != evidence.hashes.ids:
            changed.append("ids")
        margins = [name for name in changed if name.startswith("margin_")]
        if not self.job.trains_again and "margin_test" in margins:
            margins.remove("margin_test")  # it also decides which epoch of the run is kept
        if not margins or margins != changed:
            others = ", ".join(name for name in changed if name not in margins) or "nothing"
            raise InvalidInput(
                "--judge-discarded is for a request that differs from the last one in margins that "
                f"only judge. (different: {others}) Run the request without it."
            )
        if not path.is_file():
            raise DataError(f"{path} is gone. Run the request without --judge-discarded.")
        loaded = self.loaded.with_weights(path)
        if loaded.weights_digest != evidence.hashes.discarded:
            raise DataError(f"{path} was changed after request {last.number} wrote it.")
        self.on_message(f"No steps: judging the model that request {last.number} discarded.")
        rows = [row.model_dump(exclude_unset=True) for row in evidence.epochs]
        return ForgettingResult(loaded.model, rows, evidence.stopped)

    def _begin_request(self, divided: RequestData, *, discard: bool) -> Request:
        """Mark the work folder as that of this request, and return the request.

        The key that ids are hashed with is made now, if this is its first use.
        """
        key = find_id_key(self.job.id_key)
        if key is None:
            key = create_id_key(self.job.id_key)
            self.on_message(
                f"Wrote the id key {key.path}. Ids are written as hashes made with it: keep it, "
                "apart from the evidence. Later requests and looking somebody up need it."
            )
        people = self.job.id_column is not None
        hashed = self.requested.hashed(key, divided.to_forget, people=people)
        config = self._config(len(self.ledger.entries) + 1)
        run = digest_config(config, hashed.digest, self.loaded.weights_digest)
        self.work.claim(run, discard=discard)
        return Request(self.job, self.requested, hashed, self.ledger, config)

    def _tidy_up(self) -> None:
        """Finish a request whose bundle is written: note the head, remove the checkpoint."""
        write_ledger_head(Ledger.read(self.job.out))
        self.work.remove()

    def _finish_killed(self) -> Outcome | None:
        """The outcome of a request that was killed after its bundle, if this is the same one."""
        last = self.ledger.last
        if last is None or self.work.claimed_by is None:
            return None
        evidence = last.evidence
        hashes, config = evidence.hashes, evidence.config
        if self.work.claimed_by != digest_config(config, hashes.ids, hashes.weights_before):
            return None
        self._tidy_up()
        same = self._config(last.number)
        asked = self.requested.hashed(require_id_key(self.job.id_key)).digest
        if digest_config(same, asked) != digest_config(config, hashes.ids):
            return None
        self.on_message(f"Request {last.number} was complete when its command was killed.")
        return Outcome(None, evidence, last.folder, self.loaded.model, evidence.seconds)

    def _config(self, number: int) -> dict[str, Any]:
        values = {} if self.in_memory else job_values(self.job)
        return config_of(self.job, values, in_memory=self.in_memory, number=number)


class WorkFolder:
    """What a request needs to resume after it was killed: the request's digest and a checkpoint."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / ".work"
        self.checkpoint = self.path / "run.checkpoint"
        self._mark = self.path / "request.sha256"

    @property
    def claimed_by(self) -> str | None:
        """The digest of the request that is at work here, or was when it was killed."""
        return self._mark.read_text(encoding="utf-8") if self._mark.is_file() else None

    def claim(self, request: str, *, discard: bool) -> None:
        """Mark the folder as that of ``request``; with ``discard``, drop what another has done."""
        if discard:
            self.remove()
        if self.claimed_by not in (None, request):
            raise InvalidInput(
                f"Another request in {self.root} is not finished. Repeat its command to finish "
                "it, or drop what it has done with --discard."
            )
        write_text(self._mark, request, private=True)

    @contextmanager
    def kept_only_if_started(self) -> Iterator[None]:
        """Remove the folder if the run was refused before there was anything to resume."""
        try:
            yield
        except ExpungeError:
            if not self.checkpoint.exists():
                self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder with all that is in it, if it is there."""
        shutil.rmtree(self.path, ignore_errors=True)
