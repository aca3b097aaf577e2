"""Verify a ledger without computing anything: files, seals, chain, head and signatures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from expunge._errors import DataError, InvalidInput
from expunge._files import is_there
from expunge.evidence import Status
from expunge.ledger._id_key import digest_requested
from expunge.ledger._ledger import (
    EVIDENCE,
    PURGED,
    SEAL,
    Ledger,
    LedgerEntry,
    digest_config,
    digest_of,
)
from expunge.ledger._purge import (
    PurgedFile,
    find_remnants,
    purgeable,
    read_purged,
    remnants_elsewhere,
)
from expunge.ledger._seal import (
    HEAD_FILE,
    SIGNATURE,
    head_problem,
    read_ledger_head,
    read_seal,
    seal_problems,
)
from expunge.ledger._signatures import (
    PublicKey,
    bundle_problems,
    signed_head_problem,
)

EXPECTED = ("ledger", "model", "data", "requests", "evidence")
"""What can be known of requests from elsewhere."""
UNSIGNED = "unsigned: whoever can write here can rewrite it"


@dataclass
class Verification:
    """What was checked of one request, and what does not hold.

    ``status`` is the request's verdict as its evidence states it; None if it cannot be read.
    ``not_verified`` says why its numbers were not recomputed; empty if they were. Hashes that hold
    do not show that the verdict is true.
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


def verify_ledger(
    ledger: Ledger,
    *,
    key: PublicKey | None = None,
    head: str | None = None,
    expect: Mapping[str, str] | None = None,
) -> list[Verification]:
    """Check all that needs no computation, of every request; lists what remembers, too.

    ``key`` checks signatures; ``head`` and ``expect`` are known from elsewhere. A problem of the
    ledger as a whole is listed with the last request.
    """
    # The files of each request.
    purged: dict[str, PurgedFile] = {}
    problem = ""
    try:
        purged = {each.file: each for each in read_purged(ledger.root)}
    except DataError as error:
        problem = str(error)
    found = [_verify_files(ledger, entry, purged) for entry in ledger.entries]
    last = found[-1]
    if problem:
        last.add(False, f"{PURGED} can be read", problem)

    # Requests in a row.
    for number, problem in ledger.broken_seals():
        found[number - 1].add(False, "the chain of requests", problem)
    _verify_ledger_head(ledger, last)
    _list_remnants(ledger, found)
    _verify_signatures(ledger, found, key)

    # What somebody knows from elsewhere.
    known = dict(expect or {}) if head is None else {**(expect or {}), "head": head}
    for name, value in known.items():
        _verify_expected(ledger, last, name, value.strip().lower())
    return found


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
    verification.status = evidence.status
    problems = seal_problems(entry.folder, evidence, sealed)
    verification.add(not problems, "all files of the bundle are listed", " ".join(problems))
    allowed = purgeable(ledger, entry)
    for name, digest in (evidence.files | sealed).items():
        path, gone = entry.folder / name, purged.get(f"{entry.folder.name}/{name}")
        if not is_there(path) and gone and name in allowed and gone.sha256 == digest:
            verification.note(f"purged: {name}, on {gone.when[:10]}")
        elif path.is_symlink() or not path.is_file():
            verification.add(False, f"{name} is there", f"{name} is missing.")
        else:
            same = digest_of(path) == digest
            verification.add(same, f"hash of {name}", f"{name} was changed after it was written.")

    # The hashes that the evidence contains.
    same = digest_config(evidence.config) == evidence.hashes.config
    problem = "The configuration is not the one that was hashed."
    verification.add(same, "hash of the configuration", problem)
    problem = "The ids are not those that were hashed."
    try:
        records = entry.forgotten
        same = digest_requested(records.ids, records.asked) == evidence.hashes.ids
    except DataError as error:
        same, problem = False, str(error)
    verification.add(same, "hash of the ids", problem)
    return verification


def _verify_ledger_head(ledger: Ledger, last: Verification) -> None:
    """Check that no request is gone, as far as the file beside them tells."""
    claim = "all requests are here"
    try:
        if read_ledger_head(ledger.root) is None:
            last.note(f"not checked: whether {claim}: {HEAD_FILE} is missing")
            return
        problem = head_problem(ledger)
    except DataError as error:
        problem = str(error)
    last.add(not problem, claim, problem)


def _list_remnants(ledger: Ledger, found: Sequence[Verification]) -> None:
    """Say what still remembers forgotten records."""
    with suppress(DataError):  # evidence that cannot be read, which is a problem already
        outside = remnants_elsewhere(ledger)
        for remnant in find_remnants(ledger):
            number = len(found) if remnant.request is None else remnant.request
            path = remnant.path.relative_to(ledger.root)
            found[number - 1].note(f"remains: {path}, {remnant.why}")
        for words in outside:
            found[-1].note(f"remains: {words}")


def _verify_signatures(
    ledger: Ledger, found: Sequence[Verification], key: PublicKey | None
) -> None:
    """Check all signatures with ``key``; without one, say which requests are signed.

    A request without a signature is sealed by that of a later one, which covers the hash of what
    came before. One after the last signature is covered by none.
    """
    pairs = zip(ledger.entries, found, strict=True)
    signed = [entry.number for entry, each in pairs if _verify_signature(entry, each, key)]
    if key is None:
        return
    last = max(signed, default=0)
    for verification in found:
        if verification.number in signed:
            continue
        if verification.number < last:
            verification.note(f"{UNSIGNED}, but not past the signature of request {last}")
        else:
            problem = f"Request {verification.number} is unsigned: no signature covers it."
            verification.add(False, "the signature", problem)
    if signed:
        problem = signed_head_problem(ledger, key)
        found[-1].add(not problem, "all requests that were signed are here", problem)


def _verify_signature(
    entry: LedgerEntry, verification: Verification, key: PublicKey | None
) -> bool:
    """Check one request; returns whether it has a signature, good or bad."""
    signed, signer = is_there(entry.folder / SIGNATURE), None
    with suppress(DataError):  # evidence that cannot be read, which is a problem already
        signer = entry.evidence.signed_by
    if signer and not signed:
        problem = f"{SIGNATURE} is missing; the evidence was signed by key {signer}."
        verification.add(False, "the signature", problem)
    elif key is None:
        unchecked = f"not checked: the signature by key {signer} (--key PUB)"
        verification.note(unchecked if signed else UNSIGNED)
    elif signed:
        problems = bundle_problems(entry, key)
        verification.add(not problems, f"signed by key {key.key_id}", " ".join(problems))
    return bool(signed or signer)


def _verify_expected(ledger: Ledger, last: Verification, name: str, value: str) -> None:
    """Check one of :data:`EXPECTED`, or the ``head`` that was noted."""
    entries = ledger.entries
    if name == "requests":
        if not (value.isascii() and value.isdigit()):
            raise InvalidInput(f"The number of requests to expect is a number. (got {value!r})")
        problem = f"At least {value} requests were expected, {len(entries)} are here."
        last.add(len(entries) >= int(value), f"there are {value} requests or more", problem)
    elif name in ("head", "evidence"):
        # A hash that one of the requests has.
        number = None
        with suppress(DataError):  # a file that cannot be read, which is a problem already
            hashes = [entry.head if name == "head" else entry.digest for entry in entries]
            number = hashes.index(value) + 1 if value in hashes else None
        claim = f"the {name} that was noted"
        if number is not None:
            claim += f" is that of request {number}"
            later = len(entries) - number
            claim += f"; {later} request{'s' if later > 1 else ''} came after it" if later else ""
        problem = f"No request has the hash {value}: it was changed or removed since it was noted."
        last.add(number is not None, claim, problem)
    elif name in EXPECTED:
        with suppress(DataError):  # evidence that cannot be read, which is a problem already
            ledger_name = entries[0].evidence.request.ledger
            known = getattr(ledger_name, "id" if name == "ledger" else name)
            problem = f"The {name} is {known}, not {value}."
            last.add(known == value, f"the {name} is the one expected", problem)
    else:
        raise InvalidInput(f"`expect` should be of {', '.join(EXPECTED)}. (got {name!r})")
