"""Attempts: how often somebody has tried to forget the same records from the same model.

A verdict that was reached at the third seed means less than one that was reached at the first. The
requests in a folder know each other; a journal in the user's cache knows those in other folders.
It holds hashes, dates, seeds and statuses, no ids and no paths.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from expunge.data import cache_dir
from expunge.evidence._sections import AttemptStatus, EarlierAttempt
from expunge.ledger._ledger import Ledger, digest_config
from expunge.store._environment import now

JOURNAL = "attempts.jsonl"


@dataclass(frozen=True)
class JournalLine:
    """One line of the journal: an attempt that was started, or how it ended.

    ``records`` is the hash of ids and weights together, ``run`` that of all settings: a run that
    was killed and resumed is one attempt.
    """

    records: str
    run: str
    seed: int
    when: str
    status: AttemptStatus


def digest_records(ids: str, weights: str) -> str:
    """The hash of the ids' and the weights' hashes."""
    return hashlib.sha256(f"{ids}/{weights}".encode()).hexdigest()


def journal_path() -> Path:
    """The journal of this user."""
    return cache_dir() / JOURNAL


def write_attempt(records: str, run: str, seed: int, status: AttemptStatus) -> None:
    """Add a line to the journal; a journal that cannot be written stops nothing."""
    line = JournalLine(records, run, seed, now(), status)
    with suppress(OSError):
        path = journal_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, (json.dumps(asdict(line)) + "\n").encode())
        finally:
            os.close(handle)


def read_journal(records: str) -> list[JournalLine]:
    """The attempts on ``records`` in the order they were started, each with its latest status."""
    try:
        text = journal_path().read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    attempts: dict[str, JournalLine] = {}
    for row in text.splitlines():
        try:
            line = JournalLine(**json.loads(row))
        except (ValueError, TypeError):
            continue  # half a line, or one of a later version
        if line.records == records and line.status in get_args(AttemptStatus):
            attempts[line.run] = line
    return list(attempts.values())


def earlier_attempts(ledger: Ledger, ids: str, weights: str, run: str) -> list[EarlierAttempt]:
    """Attempts to forget the same ids before this ``run``: in this folder, then elsewhere.

    All requests of a folder are of one model, so there the ids alone decide; elsewhere ids and
    ``weights`` (a hash of their values, not of a file) have to be the same.
    """
    attempts, runs = [], {run}
    for entry in ledger.entries:
        evidence = entry.evidence
        if evidence.hashes.ids != ids:
            continue
        hashes = evidence.hashes
        runs.add(digest_config(evidence.config, hashes.ids, hashes.weights_before))
        attempts.append(
            EarlierAttempt(
                when=evidence.request.when,
                seed=evidence.seeds.get("run", 0),
                status=evidence.status,
                request=entry.number,
            )
        )
    attempts += [
        EarlierAttempt(when=line.when, seed=line.seed, status=line.status, request=None)
        for line in read_journal(digest_records(ids, weights))
        if line.run not in runs
    ]
    return attempts
