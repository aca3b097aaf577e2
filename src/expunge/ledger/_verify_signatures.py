"""Verify signatures: of each request, of its weights, and of the head of the ledger."""

from __future__ import annotations

from collections.abc import Sequence

from expunge._errors import DataError
from expunge.ledger._ledger import WEIGHTS, Ledger, LedgerEntry
from expunge.ledger._seal import SIGNATURE
from expunge.ledger._signatures import (
    bundle_problems,
    head_problem,
    signer_of,
    weights_problem,
)
from expunge.ledger._signing_keys import PublicKey
from expunge.ledger._verify_ledger import Verification

UNSIGNED = "unsigned: whoever can write here can rewrite it"


def verify_signatures(
    ledger: Ledger, verifications: Sequence[Verification], key: PublicKey | None
) -> None:
    """Check all signatures with ``key``; without one, say which requests are signed.

    A request without a signature is sealed by that of a later one, which covers the hash of what
    came before. One after the last signature is covered by none.
    """
    signed = [
        entry.number
        for entry, verification in zip(ledger.entries, verifications, strict=True)
        if _verify_request(entry, verification, key)
    ]
    if key is None:
        return
    last = max(signed, default=0)
    for verification in verifications:
        if verification.number in signed:
            continue
        if verification.number < last:
            verification.note(f"{UNSIGNED}, but not past the signature of request {last}")
        else:
            problem = f"Request {verification.number} is unsigned: no signature covers it."
            verification.add(False, "the signature", problem)
    if signed:
        problem = head_problem(ledger, key)
        verifications[-1].add(not problem, "all requests that were signed are here", problem)


def _verify_request(entry: LedgerEntry, verification: Verification, key: PublicKey | None) -> bool:
    """Check one request; returns whether it has a signature, good or bad."""
    signer = signer_of(entry.folder)
    try:
        claimed = entry.evidence.signed_by
    except DataError:
        claimed = None  # already reported as unreadable
    if not signer:
        if claimed:
            problem = f"{SIGNATURE} is missing; the evidence was signed by key {claimed}."
            verification.add(False, "the signature", problem)
        elif key is None:
            verification.note(UNSIGNED)
        return bool(claimed)
    if key is None:
        verification.note(f"not checked: the signature by key {signer} (--key PUB)")
        return True
    try:
        problems = bundle_problems(entry, key)
    except DataError as error:
        problems = [str(error)]
    verification.add(not problems, f"signed by key {key.key_id}", " ".join(problems))
    if (entry.folder / WEIGHTS).is_file():
        problem = weights_problem(entry.folder, key)
        verification.add(not problem, "the signature of the weights", problem)
    else:
        verification.note(f"not checked: the signature of the weights: {WEIGHTS} is gone")
    return True
