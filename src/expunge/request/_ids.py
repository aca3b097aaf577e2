"""From the ids that somebody listed to the training records they stand for."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from expunge._errors import InvalidInput
from expunge.data._id_file import COLUMNS, Id, as_number, read_ids
from expunge.request._job import Job
from expunge.request._owners import by_name, read_owners, read_table
from expunge.request.subject._load import Subject

SHOWN = 20
"""Unknown ids that a message lists."""


@dataclass(frozen=True)
class Forgotten:
    """The records to forget: sorted indices into train, and the ids they were asked for by."""

    indices: tuple[int, ...]
    ids: tuple[str, ...]
    by_id: dict[str, tuple[int, ...]]
    duplicates: tuple[str, ...] = ()
    """Ids listed more than once."""
    held_out: dict[str, int] = field(default_factory=dict)
    """Records of these ids in val or test: never trained on, so nothing to forget."""
    digest: str = ""

    def __post_init__(self) -> None:
        if not self.digest:
            object.__setattr__(self, "digest", digest_ids(self.ids, self.indices))


def digest_ids(ids: Sequence[str], indices: Sequence[int]) -> str:
    """The SHA-256 of a list of ids and of the training records they stand for."""
    content = json.dumps([sorted(ids), list(indices)])
    return hashlib.sha256(content.encode()).hexdigest()


def resolve_ids(job: Job, subject: Subject, ids: Sequence[Id] | None = None) -> Forgotten:
    """The records that the job's ids (or ``ids``) stand for; an unknown id is refused.

    Without ``records``, an id is the name of a record or its index in the training part; where
    records have numbers for names, every id is a name, so that a record that is gone is never
    taken for another one. A name that several records share stands for all of them. With
    ``records``, ids are values of ``id_column``.
    """
    given = _read(job) if ids is None else tuple(ids)
    if not given:
        raise InvalidInput("`ids` should name one record or more. (got none)")
    asked = [str(entry) for entry in given]
    counts = Counter(asked)
    unique = list(counts)
    found, held = _by_owner(job, subject) if job.records else _by_name_or_index(unique, subject)
    unknown = [entry for entry in unique if not found.get(entry)]
    if unknown:
        _refuse(unknown, len(unique), held, job, subject)
    chosen = sorted({index for entry in unique for index in found[entry]})
    if len(chosen) == len(subject.train):
        raise InvalidInput(
            f"Some records should be left to retain. (got all {len(chosen)} to forget) To forget "
            "everything, discard the model."
        )
    return Forgotten(
        indices=tuple(chosen),
        ids=tuple(unique),
        by_id={entry: found[entry] for entry in unique},
        duplicates=tuple(entry for entry, count in counts.items() if count > 1),
        held_out={entry: held[entry] for entry in unique if entry in held},
    )


def _read(job: Job) -> tuple[Id, ...]:
    """The ids in the job's file, from the column that the job names if there is one."""
    if job.ids is None:
        raise InvalidInput("`ids` should be given: a text, CSV or JSON file of what to forget.")
    if job.ids.suffix.lower() in (".csv", ".tsv") and job.ids.is_file():
        table = read_table(job.ids)
        names = [job.id_column or "", *COLUMNS, "file", "filename"]
        column = next(
            (c for c in (table.find(name) for name in names if name) if c is not None), None
        )
        if column is not None and table.columns[column].lower() not in COLUMNS:
            cells = [row[column] if column < len(row) else "" for _, row in table.lines]
            return tuple(cell for cell in cells if cell)
    return read_ids(job.ids)


Found = tuple[dict[str, tuple[int, ...]], dict[str, int]]


def _by_owner(job: Job, subject: Subject) -> Found:
    assert job.records is not None
    owners = read_owners(job.records, job.id_column, subject)
    return owners.train, owners.held_out


def _by_name_or_index(asked: Sequence[str], subject: Subject) -> Found:
    places = by_name(subject.names or ())
    numbered = any(name.isdecimal() for name in places)
    found: dict[str, tuple[int, ...]] = {}
    for entry in asked:
        number = as_number(entry)
        if entry in places:
            found[entry] = tuple(places[entry])
        elif isinstance(number, int) and not numbered and number < len(subject.train):
            found[entry] = (number,)
    held = Counter([*(subject.val.names or ()), *(subject.test.names or ())])
    return found, dict(held)


def _refuse(
    unknown: list[str], total: int, held: dict[str, int], job: Job, subject: Subject
) -> None:
    """Say which ids are not in the training data, and which of them are held out."""
    aside = [entry for entry in unknown if entry in held]
    if job.records:
        rule = f"values of the column {job.id_column!r} of {job.records}"
    elif subject.names is None:
        rule = f"indices in 0..{len(subject.train) - 1}: these records have no names"
    elif any(name.isdecimal() for name in subject.names):
        rule = "names of training records"
    else:
        rule = f"names of training records, or indices in 0..{len(subject.train) - 1}"
    words = f"Ids should be {rule}. ({len(unknown)} of {total} unknown: {_some(unknown)})"
    if aside:
        words += (
            f" Of these, {_some(aside)} are in val or test only: the model was not trained on "
            "them, so there is nothing to forget."
        )
    raise InvalidInput(words + " Nothing was changed; correct the list and try again.")


def _some(values: Sequence[str]) -> str:
    shown = ", ".join(repr(value) for value in values[:SHOWN])
    return shown + (f" and {len(values) - SHOWN} more" if len(values) > SHOWN else "")
