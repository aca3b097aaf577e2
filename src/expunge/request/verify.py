"""Check a bundle: do the hashes still fit, and the headline numbers still come out?"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import nn

from expunge import tensors
from expunge.artifact import fit_weights
from expunge.errors import DataError, ExpungeError
from expunge.evaluate import predict
from expunge.request.ledger import EVIDENCE, SEAL, WEIGHTS, Entry, Ledger, digest_of
from expunge.request.subject import Subject

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


def verify(root: Path, subject: Subject | None = None) -> list[Checked]:
    """Check every request in ``root``; with a ``subject``, compute its numbers anew."""
    ledger = Ledger.read(root)
    if not ledger.entries:
        raise DataError(f"There are no requests in {root}.")
    found = [_files(entry) for entry in ledger.entries]
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
    return checked


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
