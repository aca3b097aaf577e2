"""Carry out a deletion request: from ids to an unlearned model and its evidence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import DataError, InvalidInput
from expunge._files import write_text
from expunge.data import Augment
from expunge.distributed import as_group
from expunge.evaluation import predict
from expunge.request._clock import Clock
from expunge.request._earlier_requests import continued, still_to_forget
from expunge.request._ids import resolve_ids
from expunge.request._job import Job, make_job
from expunge.request._job_text import digest_config
from expunge.request._ledger import Ledger, alone
from expunge.request.calibrate._run import CalibrationResult, Stop, calibrate
from expunge.request.evidence._build import Case, assemble
from expunge.request.evidence._bundle import Files, write_bundle
from expunge.request.evidence._rows import Seen
from expunge.request.evidence._verdict import AGAINST
from expunge.request.preflight._check import Preflight, preflight
from expunge.request.subject._load import Subject, load_subject, make_subject

Say = Callable[[str], None]
Show = Callable[[Preflight], None]


@dataclass(frozen=True)
class Outcome:
    """How a request ended. Without ``evidence`` it stopped after the preflight."""

    preflight: Preflight
    evidence: dict[str, Any] | None = None
    folder: Path | None = None
    model: nn.Module | None = None

    @property
    def achieved(self) -> bool:
        """Whether the data were forgotten."""
        return bool(self.evidence and self.evidence["verdict"]["status"] == "achieved")


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
    **settings: Any,
) -> Outcome:
    """Carry out a deletion request from Python: what ``expunge forget`` does.

    Args:
        model: any ``nn.Module`` with its trained weights, or what ``--model`` takes.
        weights: a file, where ``model`` is a name or a factory.
        data: (train, test) or (train, val, test) of map-style datasets, or what ``--data`` takes.
        ids: indices or names of training records, or a file of them.
        out: the folder of this model's requests.
        settings: everything else of :class:`Job`, such as ``lr`` or ``floor``.

    Returns:
        The outcome: ``achieved``, ``model``, ``evidence`` (a dict) and ``folder``.
    """
    listed = None if isinstance(ids, (str, Path)) else list(ids)
    in_memory = isinstance(model, nn.Module)
    if in_memory == (weights is not None):
        raise InvalidInput("Give a trained `model`, or `weights` with a name or factory for it.")
    if not in_memory and not isinstance(data, str):
        raise InvalidInput(
            "Data in memory go with a `model` in memory: load the weights into it first. "
            f"(got data of type {type(data).__name__} with `weights`)"
        )
    named = {"model": "" if in_memory else model, "data": data if isinstance(data, str) else ""}
    files = {"weights": Path(weights or "in memory"), "ids": None if listed else Path(str(ids))}
    job = make_job(**named, **files, out=Path(out), **settings)
    subject = make_subject(model, data, job) if isinstance(model, nn.Module) else None
    return carry_out(
        job,
        subject,
        ids=listed,
        dry_run=dry_run,
        force=force,
        discard=discard,
        progress=progress,
    )


def carry_out(
    job: Job,
    subject: Subject | None = None,
    *,
    ids: Sequence[str | int] | None = None,
    dry_run: bool = False,
    force: bool = False,
    discard: bool = False,
    say: Say = lambda text: None,
    show: Show = lambda found: None,
    progress: bool = True,
) -> Outcome:
    """Carry out ``job``, alone in its folder; killed, the same call goes on where it was.

    ``subject`` and ``ids`` stand in for the model, the data and the file of ids that ``job`` names.
    ``force`` goes on with a model that does not seem to fit the data; ``discard`` drops what
    another, unfinished request left behind. ``say`` is told what is being done, ``show`` gets the
    preflight before anything is changed.
    """
    group = as_group("auto")
    if group:
        raise InvalidInput(
            "A deletion request is the work of one process; leave the process group first, or "
            f"start it without torchrun. (got {group.size} processes)"
        )
    with alone(job.out):
        return _Request(job, subject, ids, say, show, progress).run(
            dry_run=dry_run, force=force, discard=discard
        )


class _Request:
    """One request while it is carried out."""

    def __init__(
        self,
        job: Job,
        subject: Subject | None,
        ids: Sequence[str | int] | None,
        say: Say,
        show: Show,
        progress: bool,
    ) -> None:
        self.job, self.say, self.show, self.progress = job, say, show, progress
        self.in_memory = subject is not None
        self.ledger = Ledger.read(job.out)
        self.subject = continued(subject or load_subject(job), self.ledger)
        self.asked = resolve_ids(job, self.subject, ids)
        self.clock = Clock()
        self.work = job.out / ".work"

    @property
    def number(self) -> int:
        return len(self.ledger.entries) + 1

    def run(self, *, dry_run: bool, force: bool, discard: bool) -> Outcome:
        chosen, earlier = still_to_forget(self.asked.indices, self.ledger)
        if known := len(self.asked.indices) - len(chosen):
            self.say(f"{known} of the records were forgotten before, and are left out here.")
        with self.clock("preflight"):
            checked = preflight(
                self.subject, self.asked, self.job, earlier=earlier, progress=self.say
            )
        self.show(checked)
        if dry_run:
            return Outcome(checked)
        if not checked.fits and not force:
            raise DataError(
                "The model does not seem to fit the data: "
                + " ".join(checked.warnings)
                + " If it is right as it is, use --force."
            )
        copies = checked.duplicates.to_include(self.job.include_duplicates)
        if copies:
            self.say(f"{len(copies)} copies of these records are forgotten along.")
            chosen = sorted({*chosen, *(copy.index for copy in copies)})
        if len(chosen) + len(earlier) >= len(self.subject.train):
            raise InvalidInput(
                "Some records should be left to retain. (with the copies, all are to be forgotten) "
                "Leave --include-duplicates out."
            )
        config = self._config(chosen)
        self._claim(config, discard=discard)
        return self._finish(checked, chosen, earlier, config)

    def _config(self, chosen: Sequence[int]) -> dict[str, Any]:
        plain_job = self.job.model_dump(mode="json") | {"in_memory": self.in_memory}
        return plain_job | {
            "out": str(self.job.out),
            "number": self.number,
            "forgotten": len(chosen),
        }

    def _claim(self, config: Mapping[str, Any], *, discard: bool) -> None:
        """Make the work folder this request's own, or find that it is."""
        mark = self.work / "request.sha256"
        digest = digest_config(config, self.asked.digest, self.subject.weights_digest)
        if discard:
            shutil.rmtree(self.work, ignore_errors=True)
        if mark.is_file() and mark.read_text(encoding="utf-8") != digest:
            raise InvalidInput(
                f"Another request in {self.job.out} is not finished. Repeat its command to finish "
                "it, or drop what it has done with --discard."
            )
        write_text(mark, digest)

    def _finish(
        self,
        checked: Preflight,
        chosen: Sequence[int],
        earlier: set[int],
        config: Mapping[str, Any],
    ) -> Outcome:
        job, subject = self.job, self.subject
        train: Any = subject.train
        gone = earlier | set(chosen)
        forget = train.subset(list(chosen))
        retain = train.subset([i for i in range(len(train)) if i not in gone])
        with self.clock("unlearning"):
            calibrated = calibrate(
                subject.model,
                forget=forget,
                retain=retain,
                val=subject.val,
                method=job.method,
                addon=job.addon_part(),
                alpha=job.alpha,
                lr=job.lr,
                batch_size=job.batch_size,
                max_epochs=job.max_epochs,
                floor=job.floor,
                level=job.level,
                seed=job.seed,
                device=job.device,
                batchnorm=job.batchnorm,
                augment=Augment(padding=4, flip=subject.flip) if job.augment else None,
                checkpoint=self.work / "run.checkpoint",
                progress=self.progress,
            )
        case = Case(job, subject, self.asked, self.ledger, config, self.in_memory)
        attempt: nn.Module | None = None
        with self.clock("audit"):
            parts = {"forget": forget, "val": subject.val, "retain": retain, "test": subject.test}
            before, after = (
                Seen(**{name: predict(model, data) for name, data in parts.items()})
                for model in (subject.model, calibrated.model)
            )
            evidence = assemble(case, checked, chosen, calibrated, before, after)
            if evidence["verdict"]["status"] != "achieved" and calibrated.stopped.epoch:
                attempt = calibrated.model
                tried = {name: evidence[name] for name in ("stopped", "metrics", "attacks")}
                calibrated = _taken_back(calibrated, subject.model, evidence)
                evidence = assemble(case, checked, chosen, calibrated, before, before)
                evidence["attempt"] = tried
        evidence["seconds"] = self.clock.seconds()
        files = Files(calibrated.model, attempt, job, self.asked, tuple(chosen), subject.card)
        folder = write_bundle(job.out / f"{self.number:04d}", evidence, files)
        shutil.rmtree(self.work, ignore_errors=True)
        return Outcome(checked, evidence, folder, calibrated.model)


def _taken_back(
    calibrated: CalibrationResult, model: nn.Module, evidence: dict[str, Any]
) -> CalibrationResult:
    """The run undone: the model as it was, where what came nearest was not good enough."""
    stopped = calibrated.stopped
    reason = f"{stopped.reason} That is not enough, so the model was left as it was."
    if stopped.status == "achieved":
        others = evidence["verdict"]["reasons"][1:]
        reason = (
            f"Epoch {stopped.epoch} satisfied the validation data, but not the audit on what the "
            f"run had not looked at, so the model was left as it was. {' '.join(others)}"
        )
        if any(word.startswith(AGAINST) for word in others):
            reason += " More validation data would let the run see what the audit saw."
    return replace(calibrated, model=model, stopped=Stop(0, reason, "not achieved"))
