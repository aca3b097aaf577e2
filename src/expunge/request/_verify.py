"""Verify evidence: whether all hashes still match, and the headline numbers still come out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import DataError, ExpungeError
from expunge._files import is_there
from expunge.request._head_file import HEAD_FILE, head_problem, read_head_file
from expunge.request._id_key import find_key
from expunge.request._job import Job, make_job
from expunge.request._job_file import JOB, load_job
from expunge.request._ledger import (
    EVIDENCE,
    SEAL,
    Ledger,
    LedgerEntry,
    digest_config,
    digest_of,
)
from expunge.request._purge import KEYED, find_in_store, find_remnants, outside_of, purged_from
from expunge.request._recompute import recompute
from expunge.request._seal import read_seal, seal_problems
from expunge.request._signing_keys import PublicKey
from expunge.request._verification import Verification
from expunge.request._verify_signatures import verify_signatures
from expunge.request.subject._load import Subject, load_subject, make_subject


def verify(
    root: str | Path,
    subject: Subject | None = None,
    *,
    model: nn.Module | None = None,
    data: Any = None,
    head: str | None = None,
    key: str | Path | None = None,
    id_key: Path | None = None,
    store: Path | None = None,
) -> list[Verification]:
    """Check every request in ``root``: hashes, the chain of requests and, if possible, numbers.

    The numbers are computed again if there is a ``subject``, or a ``model`` of the same
    architecture (with any weights: those in the bundles are loaded) and its ``data``
    (train, val, test) in memory. ``head`` is the hash that was noted after a request: whatever was
    changed or removed before that moment is noticed. ``key`` is the PEM file of the public key
    that the requests were signed with; signatures by another one, and requests that no signature
    covers, do not hold then. Which records were forgotten is known to the holder of the ``id_key``
    (default: the user's). What audits left in their ``store`` is listed with what else remembers
    forgotten records.
    """
    ledger = Ledger.read_existing(Path(root))
    if model is not None:
        subject = _subject_in_memory(ledger, model, data)
    # Each request by itself, then the chain of requests.
    verifications = [_verify_files(ledger, entry) for entry in ledger.entries]
    _verify_weights_chain(ledger, verifications)
    for number, problem in ledger.broken_seals():
        verifications[number - 1].add(False, "the chain of requests", problem)
    _verify_head_file(ledger, verifications[-1])
    _list_remnants(ledger, verifications, store)
    verify_signatures(ledger, verifications, None if key is None else PublicKey.load(key))
    if head is not None:
        _verify_head(ledger, verifications, head)
    # The numbers and verdicts, from the weights in the bundles.
    if subject is not None:
        ledger, locked = _unlock(ledger, id_key, subject)
        for position, verification in enumerate(verifications):
            entry, earlier = ledger.entries[position], ledger.entries[:position]
            if locked:
                verification.lines.append(f"not checked: any number: {locked}")
                continue
            try:
                _verify_numbers(entry, earlier, verification, subject)
            except ExpungeError as error:
                verification.add(False, "the numbers can be computed", str(error))
    return verifications


def _list_remnants(ledger: Ledger, verifications: list[Verification], store: Path | None) -> None:
    """Say what still remembers forgotten records; what is of no one request goes to the last."""
    try:
        remnants, outside = find_remnants(ledger.root), outside_of(ledger)
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


def _unlock(ledger: Ledger, path: Path | None, subject: Subject) -> tuple[Ledger, str]:
    """The ledger with the records that its hashes stand for, or the reason why they are unknown."""
    key = find_key(path)
    try:
        if key is not None:
            return ledger.unlocked(key, **subject.sizes), ""
        if all(entry.key_fingerprint is None for entry in ledger.entries):
            return ledger, ""
    except ExpungeError as error:
        if path is not None:
            raise
        return ledger, str(error)
    return ledger, "the key that ids were hashed with is not here; give it with --id-key"


def subject_of_requests(root: Path, data: str | None = None) -> tuple[Subject | None, str]:
    """The subject of the requests in ``root``, or None and the reason why it is not available.

    ``data`` says where the data are now, if they have moved. If the original weights are gone,
    the card of those in the bundle says how to build the model, if they have one.
    """
    ledger = Ledger.read(root)
    if ledger.last is None:
        return None, ""
    if ledger.last.evidence.in_memory:
        return None, (
            "The request was made from Python with a model or data in memory, so only hashes were "
            f"checked. expunge.request.verify({str(root)!r}, model=model, data=(train, val, test)) "
            "checks the numbers too."
        )
    try:
        job = load_job(ledger.last.folder / JOB)
        moved: dict[str, Any] = {} if data is None else {"data": data}
        if not job.weights.is_file():
            moved["weights"] = ledger.weights
        return load_subject(make_job(**(job.model_dump(exclude_unset=True) | moved))), ""
    except ExpungeError as error:
        return None, f"The numbers were not checked: {error}"


def _subject_in_memory(ledger: Ledger, model: nn.Module, data: Any) -> Subject:
    config = ledger.entries[-1].evidence.config
    settings = {name: config[name] for name in Job.model_fields if config.get(name) is not None}
    return make_subject(model, data, make_job(**settings))


def _verify_files(ledger: Ledger, entry: LedgerEntry) -> Verification:
    """Check that a bundle has its files and no others, and the hash of each.

    A file that was purged is listed as such, if the hash of what was removed is the one expected.
    """
    verification = Verification(entry.number)
    try:
        evidence, sealed = entry.evidence, read_seal(entry.folder)
        purged = purged_from(ledger, entry)
    except DataError as error:
        verification.add(False, f"{EVIDENCE} and {SEAL} can be read", str(error))
        return verification
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
        same, keyed = entry.requested.digest == hashes.ids, entry.key_fingerprint is not None
    except DataError as error:
        verification.add(False, "hash of the ids", str(error))
        return
    verification.add(same, "hash of the ids", "The ids are not those that were hashed.")
    # Of earlier versions less is checked: evidence should not say that it is of one if it is not.
    version = entry.evidence.schema_version
    if keyed and version < KEYED:
        problem = f"It says that it is of version {version}, but has hashes of ids, as of {KEYED}."
        verification.add(False, f"the version of {EVIDENCE}", problem)


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


def _verify_weights_chain(ledger: Ledger, verifications: list[Verification]) -> None:
    """Check that every request started with the weights that the one before left."""
    pairs = zip(ledger.entries, ledger.entries[1:], verifications[1:], strict=False)
    for before, after, verification in pairs:
        try:
            left = before.evidence.hashes.weights_after
            same = after.evidence.hashes.weights_before == left
            versions = before.evidence.schema_version, after.evidence.schema_version
        except DataError:
            continue  # already reported as unreadable
        verification.add(
            same,
            "it started with the weights of the request before",
            f"Request {after.number} did not start with the weights of {before.number}.",
        )
        if versions[1] < versions[0]:
            problem = (
                f"It says that it is of version {versions[1]}, the one before of {versions[0]}."
            )
            verification.add(False, f"the version of {EVIDENCE}", problem)


def _verify_numbers(
    entry: LedgerEntry,
    earlier: Sequence[LedgerEntry],
    verification: Verification,
    subject: Subject,
) -> None:
    """Compute the numbers and the verdict again, from the weights in the bundles."""
    same = subject.data_digest == entry.evidence.hashes.data
    verification.add(same, "the data are those of the request", "The data have changed since.")
    result = recompute(entry, earlier, subject)
    for finding in result.findings:
        verification.add(not finding.problem, finding.claim, finding.problem)
    for what in result.left_out:
        verification.note(f"not checked: {what}")
