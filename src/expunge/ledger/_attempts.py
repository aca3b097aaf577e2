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
from pathlib import Path

import pydantic

from expunge.data import cache_dir
from expunge.evidence import AttemptStatus, EarlierAttempt
from expunge.ledger._ledger import Ledger, digest_config
from expunge.store import now

JOURNAL = "attempts.jsonl"
DIGITS = 10
"""Of a record's keyed hash in the journal: two of a million records hardly ever share them."""


class JournalLine(pydantic.BaseModel):
    """One line of the journal: an attempt that was started, or how it ended.

    ``model`` is a hash of the weights, ``run`` that of all settings: a run that was killed and
    resumed is one attempt. ``records`` are left out of the line that says how it ended.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid", strict=True)

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
    line = JournalLine(
        model=_digest(weights),
        run=run,
        seed=seed,
        status=status,
        when=now(),
        records=sorted(record[:DIGITS] for record in records),
    )
    with suppress(OSError):
        path = journal_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(handle, "ab", buffering=0) as file:  # a whole line at once
            file.write((json.dumps(line.model_dump()) + "\n").encode())


def read_journal(weights: str) -> list[JournalLine]:
    """The attempts on a model in the order they were started, each with its latest status."""
    try:
        text = journal_path().read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    attempts: dict[str, JournalLine] = {}
    for row in text.splitlines():
        try:
            line = JournalLine.model_validate_json(row)
        except pydantic.ValidationError:
            continue  # half a line
        if line.model == _digest(weights):
            started = attempts.get(line.run, line)
            records = [*started.records, *line.records]
            attempts[line.run] = line.model_copy(update={"records": records})
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
    attempts = []
    for entry in ledger.entries:
        evidence, hashes = entry.evidence, entry.evidence.hashes
        runs.add(digest_config(evidence.config, hashes.ids, hashes.weights_before))
        attempts.append(
            EarlierAttempt(
                when=evidence.request.when,
                seed=evidence.seed,
                status=evidence.status,
                request=entry.number,
                shared=len(wanted & {*entry.records.asked}),
            )
        )
    attempts += [
        EarlierAttempt(
            when=line.when,
            seed=line.seed,
            status=line.status,
            request=None,
            shared=len(shortened & {*line.records}),
        )
        for line in read_journal(weights)
        if line.run not in runs
    ]
    return [attempt for attempt in attempts if attempt.shared]


def _digest(weights: str) -> str:
    return hashlib.sha256(weights.encode()).hexdigest()
