"""Attempts: how often somebody has tried to forget some of the same records from the same model.

A verdict that was reached at the third seed means less than one that was reached at the first. The
requests in a folder know each other; a journal in the user's cache knows those in other folders.
It holds keyed hashes of records, dates, seeds and statuses, no ids and no paths.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import get_args

from expunge.data import cache_dir
from expunge.evidence import AttemptStatus, EarlierAttempt
from expunge.ledger._ledger import Ledger, digest_config
from expunge.store import now

JOURNAL = "attempts.jsonl"
DIGITS = 10
"""Of a record's keyed hash in the journal: two of a million records hardly ever share them."""


@dataclass(frozen=True)
class JournalLine:
    """One line of the journal: an attempt that was started, or how it ended.

    ``model`` is a hash of the weights, ``run`` that of all settings: a run that was killed and
    resumed is one attempt. ``records`` are left out of the line that says how it ended.
    """

    model: str
    run: str
    seed: int
    status: AttemptStatus
    when: str
    records: list[str]


def journal_path() -> Path:
    """The journal of this user."""
    return cache_dir() / JOURNAL


def write_attempt(
    weights: str, run: str, seed: int, status: AttemptStatus, records: Iterable[str] = ()
) -> None:
    """Add a line to the journal; a journal that cannot be written stops nothing."""
    shortened = sorted(record[:DIGITS] for record in records)
    line = JournalLine(_digest(weights), run, seed, status, now(), shortened)
    with suppress(OSError):
        path = journal_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, (json.dumps(asdict(line)) + "\n").encode())
        finally:
            os.close(handle)


def read_journal(weights: str) -> list[JournalLine]:
    """The attempts on a model in the order they were started, each with its latest status."""
    try:
        text = journal_path().read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    attempts: dict[str, JournalLine] = {}
    for row in text.splitlines():
        try:
            line = JournalLine(**json.loads(row))
            known = line.model == _digest(weights) and line.status in get_args(AttemptStatus)
        except (ValueError, TypeError):
            continue  # half a line
        if known:
            started = attempts.get(line.run, line)
            attempts[line.run] = replace(line, records=[*started.records, *line.records])
    return list(attempts.values())


def earlier_attempts(
    ledger: Ledger, records: Iterable[str], weights: str, run: str
) -> list[EarlierAttempt]:
    """Attempts to forget any of these ``records`` before this ``run``: here, then elsewhere.

    Records are keyed hashes. All requests of a folder are of one model; elsewhere the ``weights``
    (a hash of their values, not of a file) have to be the same.
    """
    wanted = set(records)
    shortened = {record[:DIGITS] for record in wanted}
    runs = {run}
    attempts: list[tuple[str, int, AttemptStatus, int | None, int]] = []
    for entry in ledger.entries:
        evidence, hashes = entry.evidence, entry.evidence.hashes
        runs.add(digest_config(evidence.config, hashes.ids, hashes.weights_before))
        started = evidence.request.when, evidence.seed, evidence.status
        attempts.append((*started, entry.number, len(wanted & {*entry.records.asked})))
    for line in read_journal(weights):
        if line.run not in runs:
            shared = len(shortened & {*line.records})
            attempts.append((line.when, line.seed, line.status, None, shared))
    return [
        EarlierAttempt(when=when, seed=seed, status=status, request=number, shared=shared)
        for when, seed, status, number, shared in attempts
        if shared
    ]


def _digest(weights: str) -> str:
    return hashlib.sha256(weights.encode()).hexdigest()
