"""Verify a ledger without computing anything: files, seals, the chain of requests, its head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from expunge._errors import DataError, InvalidInput
from expunge._files import is_there
from expunge.evidence import Status
from expunge.ledger._ledger import (
    EVIDENCE,
    PURGED,
    SEAL,
    Ledger,
    LedgerEntry,
    digest_config,
    digest_of,
)
from expunge.ledger._ledger_head import HEAD_FILE, head_problem, read_ledger_head
from expunge.ledger._purge import (
    PurgedFile,
    find_in_store,
    find_remnants,
    may_be_purged,
    outside_of,
    read_purged,
)
from expunge.ledger._seal import read_seal, seal_problems

EXPECTED = ("ledger", "model", "data", "requests", "evidence")
"""What can be known of requests from elsewhere."""


@dataclass
class Verification:
    """What was checked of one request, and what does not hold.

    ``status`` is the request's verdict as its evidence states it; None if it cannot be read.
    ``not_verified`` says why its numbers were not recomputed; empty if they were. That hashes hold
    says nothing about the verdict.
    """

    number: int
    status: Status | None = None
    not_verified: str = ""
    lines: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing was found that does not hold."""
        return not self.problems

    @property
    def verified(self) -> bool:
        """Whether everything holds, the numbers and the verdict included."""
        return self.ok and not self.not_verified

    def note(self, what: str) -> None:
        """Add a line about what could not be checked, or says nothing."""
        self.lines.append(what)

    def add(self, holds: bool, claim: str, problem: str = "") -> None:
        """Add the result of checking ``claim``; ``problem`` describes it if it does not hold."""
        self.lines.append(f"{'holds' if holds else 'DOES NOT HOLD'}: {claim}")
        if not holds:
            self.problems.append(problem or claim)


def verify_ledger(ledger: Ledger) -> list[Verification]:
    """Check the files of every request, the chain of requests, and the head beside them."""
    purged, problem = _purged_from(ledger)
    verifications = [
        _verify_files(ledger, entry, purged.get(entry.folder.name, {})) for entry in ledger.entries
    ]
    if problem:
        verifications[-1].add(False, f"{PURGED} can be read", problem)
    _verify_weights_chain(ledger, verifications)
    for number, problem in ledger.broken_seals():
        verifications[number - 1].add(False, "the chain of requests", problem)
    _verify_ledger_head(ledger, verifications[-1])
    return verifications


def verify_known(
    ledger: Ledger, last: Verification, head: str | None, expect: Mapping[str, str]
) -> None:
    """Check what somebody knows from elsewhere; what is wrong belongs to the last request."""
    if head is not None:
        _verify_head(ledger, last, head)
    for name, value in expect.items():
        _verify_expected(ledger, last, name, value.strip().lower())


def list_remnants(ledger: Ledger, verifications: list[Verification], store: Path | None) -> None:
    """Say what still remembers forgotten records; what is of no one request goes to the last."""
    try:
        remnants, outside = find_remnants(ledger), outside_of(ledger)
    except DataError:
        return  # already reported as unreadable
    for remnant in remnants:
        number = len(verifications) if remnant.request is None else remnant.request
        path = remnant.path.relative_to(ledger.root)
        verifications[number - 1].note(f"remains: {path}, {remnant.why}")
    for words in outside:
        verifications[-1].note(f"remains: {words}")
    if store is not None and (left := find_in_store(store)):
        verifications[-1].note(
            f"remains: {len(left)} shadow models, checkpoints or data of audits in {store}"
        )


def _purged_from(ledger: Ledger) -> tuple[dict[str, dict[str, PurgedFile]], str]:
    """The files that were purged, by bundle and name, and what is wrong with the list of them."""
    purged: dict[str, dict[str, PurgedFile]] = {}
    try:
        for each in read_purged(ledger.root):
            folder, _, name = each.file.partition("/")
            purged.setdefault(folder, {})[name] = each
    except DataError as error:
        return {}, str(error)
    return purged, ""


def _verify_files(
    ledger: Ledger, entry: LedgerEntry, purged: Mapping[str, PurgedFile]
) -> Verification:
    """Check that a bundle has its files and no others, and the hash of each.

    A file that was purged is listed as such, if the hash of what was removed is the one expected.
    """
    verification = Verification(entry.number)
    try:
        evidence, sealed = entry.evidence, read_seal(entry.folder)
    except DataError as error:
        verification.add(False, f"{EVIDENCE} and {SEAL} can be read", str(error))
        return verification
    allowed = may_be_purged(ledger, entry)
    purged = {name: each for name, each in purged.items() if name in allowed}
    problems = seal_problems(entry.folder, evidence, sealed)
    verification.add(not problems, "all files of the bundle are listed", " ".join(problems))
    for name, digest in (evidence.files | sealed).items():
        path = entry.folder / name
        if not is_there(path) and name in purged and purged[name].sha256 == digest:
            verification.lines.append(f"purged: {name}, on {purged[name].when[:10]}")
        elif path.is_symlink() or not path.is_file():
            verification.add(False, f"{name} is there", f"{name} is missing.")
        else:
            same = digest_of(path) == digest
            verification.add(same, f"hash of {name}", f"{name} was changed after it was written.")
    _verify_inner_hashes(entry, verification)
    verification.status = evidence.status
    return verification


def _verify_inner_hashes(entry: LedgerEntry, verification: Verification) -> None:
    """Check the hashes of the configuration and of the ids that the evidence contains."""
    hashes, config = entry.evidence.hashes, entry.evidence.config
    same = digest_config(config) == hashes.config
    verification.add(
        same, "hash of the configuration", "The configuration is not the one that was hashed."
    )
    try:
        same = entry.requested.digest == hashes.ids
    except DataError as error:
        verification.add(False, "hash of the ids", str(error))
        return
    verification.add(same, "hash of the ids", "The ids are not those that were hashed.")


def _verify_ledger_head(ledger: Ledger, last: Verification) -> None:
    """Check that all requests are here that were, as far as the file beside them tells."""
    claim = "all requests are here"
    try:
        if read_ledger_head(ledger.root) is None:
            last.note(f"not checked: whether {claim}: {HEAD_FILE} is missing")
            return
        problem = head_problem(ledger)
    except DataError as error:
        problem = str(error)
    last.add(not problem, claim, problem)


def _verify_head(ledger: Ledger, last: Verification, head: str) -> None:
    """Check that a request has the hash that was noted."""
    try:
        position = ledger.position_of(head.strip().lower())
    except DataError:
        position = None  # already reported as unreadable
    if position is None:
        last.add(
            False,
            "the head that was noted",
            f"No request has the hash {head}: requests were changed or removed since it was noted.",
        )
        return
    later = len(ledger.entries) - position
    since = f"; {later} request{'s' if later > 1 else ''} came after it" if later else ""
    last.add(True, f"the head that was noted is that of request {position}{since}")


def _verify_expected(ledger: Ledger, last: Verification, name: str, value: str) -> None:
    if name not in EXPECTED:
        raise InvalidInput(f"`expect` should be of {', '.join(EXPECTED)}. (got {name!r})")
    if name == "requests":
        if not (value.isascii() and value.isdigit()):
            raise InvalidInput(f"The number of requests to expect is a number. (got {value!r})")
        here = len(ledger.entries)
        problem = f"At least {value} requests were expected, {here} are here."
        last.add(here >= int(value), f"there are {value} requests or more", problem)
        return
    try:
        if name == "evidence":
            found = next((e.number for e in ledger.entries if e.digest == value), None)
            problem = f"No request has evidence with the fingerprint {value}."
            last.add(found is not None, f"the evidence of request {found} is as expected", problem)
            return
        known = getattr(
            ledger.entries[0].evidence.request.ledger, "id" if name == "ledger" else name
        )
    except DataError:
        return  # already reported as unreadable
    last.add(
        known == value, f"the {name} is the one expected", f"The {name} is {known}, not {value}."
    )


def _verify_weights_chain(ledger: Ledger, verifications: list[Verification]) -> None:
    """Check that every request started with the weights that the one before left."""
    pairs = zip(ledger.entries, ledger.entries[1:], verifications[1:], strict=False)
    for before, after, verification in pairs:
        try:
            left = before.evidence.hashes.weights_after
            same = after.evidence.hashes.weights_before == left
        except DataError:
            continue  # already reported as unreadable
        verification.add(
            same,
            "it started with the weights of the request before",
            f"Request {after.number} did not start with the weights of {before.number}.",
        )
