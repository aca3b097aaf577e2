"""Carry out a deletion request: from ids to an unlearned model and its evidence."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from expunge.data import Augment
from expunge.errors import DataError, InvalidInput
from expunge.evaluate import predict
from expunge.files import write_text
from expunge.request.assemble import Case, assemble, digest_config
from expunge.request.bundle import write_bundle
from expunge.request.calibrate import Calibrated, Stop, calibrate
from expunge.request.clock import Clock
from expunge.request.evidence import Seen
from expunge.request.job import Job, make_job
from expunge.request.ledger import Ledger, alone, digest_of
from expunge.request.names import resolve_ids
from expunge.request.preflight import Preflight, preflight
from expunge.request.subject import Subject, load_subject, make_subject

Say = Callable[[str], None]


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
        settings: everything else of :class:`~expunge.request.job.Job`, such as ``lr`` or ``floor``.

    Returns:
        The outcome: ``achieved``, ``model``, ``evidence`` (a dict) and ``folder``.
    """
    listed = None if isinstance(ids, (str, Path)) else list(ids)
    in_memory = isinstance(model, nn.Module)
    if in_memory == (weights is not None):
        raise InvalidInput("Give a trained `model`, or `weights` with a name or factory for it.")
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
    progress: bool = True,
) -> Outcome:
    """Carry out ``job``, alone in its folder; killed, the same call goes on where it was.

    ``subject`` and ``ids`` stand in for the model, the data and the file of ids that ``job`` names.
    ``force`` goes on with a model that does not seem to fit the data; ``discard`` drops what
    another, unfinished request left behind.
    """
    with alone(job.out):
        return _Request(job, subject, ids, say, progress).run(
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
        progress: bool,
    ) -> None:
        self.job, self.say, self.progress = job, say, progress
        self.in_memory = subject is not None
        self.ledger = Ledger.read(job.out)
        self.subject = _continued(subject or load_subject(job), self.ledger)
        self.asked = resolve_ids(job, self.subject, ids)
        self.clock = Clock()
        self.work = job.out / ".work"

    @property
    def number(self) -> int:
        return len(self.ledger.entries) + 1

    def run(self, *, dry_run: bool, force: bool, discard: bool) -> Outcome:
        earlier = {i for indices in self.ledger.forgotten.values() for i in indices}
        chosen = [i for i in self.asked.indices if i not in earlier]
        if not chosen:
            raise InvalidInput(
                f"All {len(self.asked.indices)} records were asked for before. There is nothing "
                "new to forget."
            )
        if known := len(self.asked.indices) - len(chosen):
            self.say(f"{known} of the records were asked for before, and are left out here.")
        with self.clock("preflight"):
            checked = preflight(
                self.subject, self.asked, self.job, earlier=earlier, progress=self.say
            )
        if dry_run:
            return Outcome(checked)
        if not checked.fits and not force:
            raise DataError(
                "The model does not seem to fit the data: "
                + " ".join(checked.warnings)
                + " If it is right as it is, use --force."
            )
        if self.job.include_duplicates:
            copies = [i for i in checked.copies_in_retain if i not in earlier]
            self.say(f"{len(set(copies) - set(chosen))} copies are forgotten along.")
            chosen = sorted({*chosen, *copies})
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
        case = Case(job, subject, self.asked, self.ledger, config)
        with self.clock("audit"):
            parts = {"forget": forget, "val": subject.val, "retain": retain, "test": subject.test}
            before, after = (
                Seen(**{name: predict(model, data) for name, data in parts.items()})
                for model in (subject.model, calibrated.model)
            )
            evidence = assemble(case, checked, chosen, calibrated, before, after)
            if evidence["verdict"]["status"] != calibrated.stopped.status:
                calibrated = _refused(calibrated, subject.model, evidence)
                attempt = {name: evidence[name] for name in ("metrics", "attacks", "earlier")}
                evidence = assemble(case, checked, chosen, calibrated, before, before)
                evidence["attempt"] = attempt
        evidence["seconds"] = self.clock.seconds()
        forgotten = {
            "indices": list(chosen),
            "ids": list(self.asked.ids),
            "digest": self.asked.digest,
        }
        folder = write_bundle(
            job.out / f"{self.number:04d}", evidence, calibrated.model, {}, forgotten
        )
        shutil.rmtree(self.work, ignore_errors=True)
        return Outcome(checked, evidence, folder, calibrated.model)


def _refused(calibrated: Calibrated, model: nn.Module, evidence: dict[str, Any]) -> Calibrated:
    """The run taken back: what satisfied val did not stand up to the audit on test data."""
    reasons = " ".join(evidence["verdict"]["reasons"][1:])
    reason = (
        f"Epoch {calibrated.stopped.epoch} satisfied the validation data, but not the audit on "
        f"test data, so the model was left as it was. {reasons} More validation data would let the "
        "run see what the audit saw."
    )
    return replace(calibrated, model=model, stopped=Stop(0, reason, "not achieved"))


def _continued(subject: Subject, ledger: Ledger) -> Subject:
    """The subject with the weights that the latest request left behind."""
    last = ledger.last
    if last is None:
        return subject
    hashes = last.evidence["hashes"]
    if subject.data_digest != hashes["data"]:
        raise DataError(
            f"The data have changed since request {last.number} in {ledger.root}: their hash "
            "differs. A sequence of requests needs the same data; for other data, choose another "
            "--out."
        )
    first = ledger.entries[0].evidence["hashes"]["weights_before"]
    left = digest_of(ledger.weights) if ledger.weights else ""
    if left != hashes["weights_after"]:
        raise DataError(f"{ledger.weights} was changed after request {last.number} wrote it.")
    if subject.weights_digest not in (first, left):
        raise InvalidInput(
            f"The requests in {ledger.root} began with other weights. Give the same --weights, or "
            "choose another --out for another model."
        )
    assert ledger.weights is not None
    return subject.with_weights(ledger.weights)
