"""Verify evidence: whether all hashes still match, and the same numbers are computed again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from expunge._errors import ExpungeError
from expunge.ledger import Ledger, PublicKey, Verification, require_id_key, verify_ledger
from expunge.request._rebuild import NOT_RECOMPUTED, compare_with_rebuilt
from expunge.request._reload import NotAvailable, reload_model_and_data
from expunge.request.loading._load import ModelAndData

MOST_SHOWN = 20
"""Fields that are shown of those that are not as stated."""


def verify(
    root: str | Path,
    loaded: ModelAndData | None = None,
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
    on_import: Callable[[str], None] = lambda words: None,
) -> list[Verification]:
    """Check every request in ``root``: hashes, the chain of requests, signatures, and numbers.

    A bundle is somebody else's file, so nothing is loaded before all hashes and signatures hold,
    and no code is imported because a bundle names it. Where the numbers of a request could not be
    recomputed, ``not_verified`` of its verification says why.

    Args:
        root: the folder of requests.
        loaded: the model and the data, if they are loaded already.
        model: the model from before the first request, or one of the same architecture with
            ``weights``, or what ``--model`` takes. Needed where the bundle names code.
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
    """
    ledger = Ledger.read_existing(Path(root))
    # Files, seals, the chain of requests, its head, and signatures.
    public = None if key is None else PublicKey.load(key)
    verifications = verify_ledger(ledger, key=public, head=head, expect=expect)
    # Only of what holds so far: the numbers and verdicts, from the weights in the bundles.
    why, known = "", None
    if quick:
        why = "only hashes and signatures were to be checked"
    elif not all(verification.ok for verification in verifications):
        why = "hashes, signatures or the chain of requests do not hold"
    else:
        try:
            loaded = loaded or reload_model_and_data(
                ledger,
                model=model,
                data=data,
                weights=weights,
                trust_job=trust_job,
                on_import=on_import,
            )
            known = require_id_key(id_key)
            ledger = ledger.unlocked(known, **loaded.sizes)
        except ExpungeError as error:
            if id_key is not None and not isinstance(error, NotAvailable):
                raise
            why = str(error).rstrip(".")
    for position, verification in enumerate(verifications):
        verification.not_verified = why
        if loaded is None or known is None or why:
            continue
        earlier = Ledger(ledger.root, ledger.entries[:position])
        try:
            problems = compare_with_rebuilt(
                ledger.entries[position], earlier, loaded, known, replay=replay
            )
        except NotAvailable as error:
            verification.not_verified = str(error)
            continue
        except ExpungeError as error:
            verification.add(False, "the numbers can be computed", str(error))
            continue
        for problem in problems[:MOST_SHOWN]:
            verification.add(False, problem)
        if len(problems) > MOST_SHOWN:
            verification.note(f"and {len(problems) - MOST_SHOWN} more that are not as stated")
        if not problems:
            verification.add(True, "everything that weights and data tell is as stated")
            if replay:
                verification.add(True, "forgetting again gives the same weights")
        verification.note(f"not recomputed: {', '.join(NOT_RECOMPUTED)}")
    return verifications
