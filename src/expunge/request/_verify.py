"""Check a bundle: do the hashes still fit, and the headline numbers still come out?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from expunge import _tensors as tensors
from expunge._artifact import fit_weights
from expunge._errors import DataError, ExpungeError
from expunge.evaluation import predict
from expunge.request._ids import digest_ids
from expunge.request._job import Job, make_job
from expunge.request._job_text import digest_config
from expunge.request._ledger import EVIDENCE, SEAL, WEIGHTS, Entry, Ledger, digest_of
from expunge.request.subject._load import Subject, make_subject

TOLERANCE = 0.5
"""Points by which an accuracy may differ: another processor rounds differently."""


@dataclass
class Checked:
    """What was checked of one request, and what does not hold."""

    number: int
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything holds."""
        return not self.problems

    def note(self, holds: bool, what: str, wrong: str = "") -> None:
        """Keep a line, and a problem where it does not hold."""
        self.lines.append(f"{'holds' if holds else 'DOES NOT HOLD'}: {what}")
        if not holds:
            self.problems.append(wrong or what)


def verify(
    root: str | Path,
    subject: Subject | None = None,
    *,
    model: nn.Module | None = None,
    data: Any = None,
) -> list[Checked]:
    """Check every request in ``root``: hashes, the chain of requests and, if it can, the numbers.

    They are computed anew with a ``subject``, or with a ``model`` of the architecture (whatever
    its weights: those in the bundles are put in) and its ``data`` (train, val, test) in memory.
    """
    root = Path(root)
    ledger = Ledger.read(root)
    if not ledger.entries:
        raise DataError(f"There are no requests in {root}.")
    if model is not None:
        subject = _in_memory(ledger, model, data)
    found = [_files(entry) for entry in ledger.entries]
    _weights(ledger, found)
    for seal in ledger.broken_seals():
        number = int(seal.split()[1].rstrip(":"))
        found[number - 1].note(False, "the chain of requests", seal)
    if subject is not None:
        for entry, checked in zip(ledger.entries, found, strict=True):
            try:
                _numbers(entry, checked, subject)
            except ExpungeError as error:
                checked.note(False, "the numbers can be computed", str(error))
    return found


def _files(entry: Entry) -> Checked:
    checked = Checked(entry.number)
    try:
        evidence = entry.evidence
        lines = (entry.folder / SEAL).read_text(encoding="utf-8").splitlines()
        pairs = (line.split(maxsplit=1) for line in lines)
        sealed = {name: digest for digest, name in pairs}
    except (DataError, OSError, ValueError) as error:
        checked.note(False, f"{EVIDENCE} can be read", str(error))
        return checked
    for name, digest in (evidence.get("files", {}) | sealed).items():
        path = entry.folder / name
        if not path.is_file():
            checked.note(False, f"{name} is there", f"{name} is missing.")
        else:
            same = digest_of(path) == digest
            checked.note(same, f"hash of {name}", f"{name} was changed after it was written.")
    _inside(entry, checked)
    return checked


def _inside(entry: Entry, checked: Checked) -> None:
    """The hashes of what the evidence itself says: of its configuration and of the ids."""
    hashes, config = entry.evidence["hashes"], entry.evidence["config"]
    same = digest_config(config) == hashes["config"]
    checked.note(same, "hash of the configuration", "The configuration is not the one hashed.")
    try:
        ids, asked = entry.asked
    except DataError as error:
        checked.note(False, "hash of the ids", str(error))
        return
    same = digest_ids(ids, asked) == hashes["ids"]
    checked.note(same, "hash of the ids", "The ids are not those hashed.")


def _weights(ledger: Ledger, found: list[Checked]) -> None:
    """Every request began with the weights that the one before left."""
    pairs = zip(ledger.entries, ledger.entries[1:], found[1:], strict=False)
    for before, after, checked in pairs:
        try:
            left = before.evidence["hashes"]["weights_after"]
            same = after.evidence["hashes"]["weights_before"] == left
        except DataError:
            continue  # it was said before that this cannot be read
        wrong = f"Request {after.number} did not begin with the weights of {before.number}."
        checked.note(same, "it began with the weights of the request before", wrong)


def _in_memory(ledger: Ledger, model: nn.Module, data: Any) -> Subject:
    config = ledger.entries[-1].evidence["config"]
    kept = {name: config[name] for name in Job.model_fields if config.get(name) is not None}
    return make_subject(model, data, make_job(**kept))


def _numbers(entry: Entry, checked: Checked, subject: Subject) -> None:
    evidence = entry.evidence
    same = subject.data_digest == evidence["hashes"]["data"]
    checked.note(same, "the data are those of the request", "The data have changed since.")
    model = _model(entry, subject)
    train: Any = subject.train
    splits = {
        "ua": train.subset(list(entry.indices)),
        "va": subject.val,
        "ta": subject.test,
    }
    kept = {metric["name"]: metric["after"]["value"] for metric in evidence["metrics"]}
    for name, data in splits.items():
        p = predict(model, data)
        value = 100.0 * float((p.classes == p.labels).double().mean())
        checked.note(
            abs(value - kept[name]) <= TOLERANCE,
            f"{name.upper()} is {value:.2f} %, {kept[name]:.2f} % in the evidence",
            f"{name.upper()} comes out as {value:.2f} %, not {kept[name]:.2f} %.",
        )


def _model(entry: Entry, subject: Subject) -> nn.Module:
    path = entry.folder / WEIGHTS
    model = subject.build()
    fit_weights(model, tensors.load(path)[0], str(path))
    return model.eval()
