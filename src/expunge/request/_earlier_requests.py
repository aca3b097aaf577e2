"""One request after another: where the next goes on from, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Sequence

from expunge._errors import DataError, InvalidInput
from expunge.request._ledger import Ledger, digest_of
from expunge.request.subject._load import Subject


def continued(subject: Subject, ledger: Ledger) -> Subject:
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


def still_to_forget(asked: Sequence[int], ledger: Ledger) -> tuple[list[int], set[int]]:
    """The records to forget now, and those of earlier requests, which are out of retain.

    What a request asked for and did not achieve can be asked for again.
    """
    done = {i for entry in ledger.entries if entry.achieved for i in entry.indices}
    chosen = [i for i in asked if i not in done]
    if not chosen:
        raise InvalidInput(
            f"All {len(asked)} records were forgotten before. There is nothing new to forget."
        )
    before = {i for indices in ledger.forgotten.values() for i in indices}
    return chosen, before - set(chosen)
