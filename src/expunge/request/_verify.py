"""Verify evidence: whether all hashes still match, and the same numbers are computed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import DataError, ExpungeError, InvalidInput
from expunge._files import is_there
from expunge.request._head_file import HEAD_FILE, head_problem, read_head_file
from expunge.request._id_key import IdKey, require_key
from expunge.request._ledger import (
    EVIDENCE,
    PURGED,
    SEAL,
    Ledger,
    LedgerEntry,
    digest_config,
    digest_of,
)
from expunge.request._purge import (
    PurgedFile,
    find_in_store,
    find_remnants,
    may_be_purged,
    outside_of,
    read_purged,
)
from expunge.request._rebuild import NOT_RECOMPUTED, CannotRebuild, compare_with_rebuilt
from expunge.request._requests_subject import NotAvailable, load_subject_of
from expunge.request._seal import read_seal, seal_problems
from expunge.request._signing_keys import PublicKey
from expunge.request._verification import Verification
from expunge.request._verify_signatures import verify_signatures
from expunge.request.subject._load import Subject

MOST_SHOWN = 20
"""Fields that are shown of those that are not as stated."""


def verify(
    root: str | Path,
    subject: Subject | None = None,
    *,
    model: nn.Module | str | None = None,
    data: Any = None,
    weights: str | Path | None = None,
    trust_job: bool = False,
    quick: bool = False,
    replay: bool = False,
    head: str | None = None,
    expect: Mapping[str, str] | None = None,
    key: str | Path | None = None,
    id_key: Path | None = None,
    store: Path | None = None,
    on_import: Callable[[str], None] = lambda words: None,
) -> list[Verification]:
    """Check every request in ``root``: hashes, the chain of requests, signatures, and numbers.

    A bundle is somebody else's file, so nothing is loaded before all hashes and signatures hold,
    and no code is imported because a bundle names it. Where the numbers of a request could not be
    recomputed, ``not_verified`` of its verification says why.

    Args:
        root: the folder of requests.
        subject: the model and the data, if they are loaded already.
        model: a model of the same architecture (with any weights: those in the bundles are
            loaded), or what ``--model`` takes. Needed where the bundle names code.
        data: (train, val, test) in memory, or what ``--data`` takes. Needed where the bundle names
            code, or if the data have moved.
        weights: the model from before the first request, if it has moved.
        trust_job: import the code that the bundle names; ``on_import`` is called with it before.
        quick: check hashes and signatures only.
        replay: also forget the records again by the same settings, and compare the weights bit by
            bit: the same machine, number of threads and versions give the same ones.
        head: the hash that was noted after a request: whatever was changed or removed before that
            moment is noticed.
        expect: what these requests should be about, as you know it from elsewhere: the ``ledger``
            id, the hash of the ``model`` before the first request or of the ``data``, the number
            of ``requests`` at least, or the hash of an ``evidence.json``, as a letter has it.
        key: the PEM file of the public key that the requests were signed with; signatures by
            another one, and requests that no signature covers, do not hold then.
        id_key: who holds it knows which records were forgotten (default: the user's).
        store: what audits left there is listed with what else remembers forgotten records.
    """
    ledger = Ledger.read_existing(Path(root))
    # Files, seals, the chain of requests, its head, and signatures.
    purged, problem = _purged_from(ledger)
    verifications = [
        _verify_files(ledger, entry, purged.get(entry.folder.name, {})) for entry in ledger.entries
    ]
    if problem:
        verifications[-1].add(False, f"{PURGED} can be read", problem)
    _verify_weights_chain(ledger, verifications)
    for number, problem in ledger.broken_seals():
        verifications[number - 1].add(False, "the chain of requests", problem)
    _verify_head_file(ledger, verifications[-1])
    _list_remnants(ledger, verifications, store)
    verify_signatures(ledger, verifications, None if key is None else PublicKey.load(key))
    if head is not None:
        _verify_head(ledger, verifications, head)
    for name, value in (expect or {}).items():
        _verify_expected(ledger, verifications[-1], name, value.strip().lower())
    # Only of what holds so far: the numbers and verdicts, from the weights in the bundles.
    why = ""
    if quick:
        why = "only hashes and signatures were to be checked"
    elif not all(verification.ok for verification in verifications):
        why = "what comes before them does not hold"
    elif subject is None:
        try:
            subject = load_subject_of(
                ledger,
                model=model,
                data=data,
                weights=weights,
                trust_job=trust_job,
                on_import=on_import,
            )
        except NotAvailable as error:
            why = str(error)
    id_key_found: IdKey | None = None
    if subject is not None and not why:
        try:
            id_key_found = require_key(id_key)
            ledger = ledger.unlocked(id_key_found, **subject.sizes)
        except ExpungeError as error:
            if id_key is not None:
                raise
            why = str(error).rstrip(".")
    for position, verification in enumerate(verifications):
        verification.not_verified = why
        if subject is None or id_key_found is None or why:
            continue
        earlier = Ledger(ledger.root, ledger.entries[:position])
        try:
            _verify_numbers(
                ledger.entries[position],
                earlier,
                verification,
                subject,
                id_key_found,
                replay=replay,
            )
        except ExpungeError as error:
            verification.add(False, "the numbers can be computed", str(error))
    return verifications


def _list_remnants(ledger: Ledger, verifications: list[Verification], store: Path | None) -> None:
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


def _verify_head_file(ledger: Ledger, last: Verification) -> None:
    """Check that all requests are here that were, as far as the file beside them tells."""
    claim = "all requests are here"
    try:
        if read_head_file(ledger.root) is None:
            last.note(f"not checked: whether {claim}: {HEAD_FILE} is missing")
            return
        problem = head_problem(ledger)
    except DataError as error:
        problem = str(error)
    last.add(not problem, claim, problem)


def _verify_head(ledger: Ledger, verifications: list[Verification], head: str) -> None:
    """Check that a request has the hash that was noted; what is wrong belongs to the last one."""
    try:
        position = ledger.position_of(head.strip().lower())
    except DataError:
        position = None  # already reported as unreadable
    last = verifications[-1]
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


EXPECTED = ("ledger", "model", "data", "requests", "evidence")
"""What can be known of requests from elsewhere."""


def _verify_expected(ledger: Ledger, last: Verification, name: str, value: str) -> None:
    """Check what somebody knows from elsewhere; what is wrong belongs to the last request."""
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


def _verify_numbers(
    entry: LedgerEntry,
    earlier: Ledger,
    verification: Verification,
    subject: Subject,
    key: IdKey,
    *,
    replay: bool,
) -> None:
    """Build the evidence again from weights and data, and compare every field."""
    same = subject.data_digest == entry.evidence.hashes.data
    verification.add(same, "the data are those of the request", "The data have changed since.")
    if not same:
        return
    try:
        rebuilt = compare_with_rebuilt(entry, earlier, subject, key, replay=replay)
    except CannotRebuild as error:
        verification.not_verified = str(error)
        return
    claim = "everything that weights and data tell is as stated"
    shown = rebuilt.problems[:MOST_SHOWN]
    more = len(rebuilt.problems) - len(shown)
    for problem in shown:
        verification.add(False, problem)
    if more:
        verification.note(f"and {more} more fields that are not as stated")
    if not rebuilt.problems:
        verification.add(True, claim)
    verification.not_verified = "; ".join(rebuilt.not_compared)
    verification.note(f"not recomputed: {', '.join(NOT_RECOMPUTED)}")
