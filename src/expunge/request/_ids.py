"""Resolve the ids that somebody listed to the training records they stand for."""

from __future__ import annotations

import numbers
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from expunge._errors import InvalidInput
from expunge.data._id_file import COLUMNS, Id, as_number, read_ids
from expunge.request._id_key import HashedRecords, IdKey
from expunge.request._job import Job
from expunge.request._records_table import indices_by_name, read_owners
from expunge.request.subject._load import Subject

MAX_LISTED = 20
"""Unknown ids that an error message lists."""


@dataclass(frozen=True)
class RequestedRecords:
    """The records to forget: sorted indices into train, and the ids that stand for them."""

    indices: tuple[int, ...]
    ids: tuple[str, ...]
    by_id: dict[str, tuple[int, ...]]
    repeated_ids: tuple[str, ...] = ()
    """Ids listed more than once."""
    held_out: dict[str, int] = field(default_factory=dict)
    """Records of these ids in val or test: never trained on, so nothing to forget."""

    def hashed(self, key: IdKey) -> HashedRecords:
        """The ids and the records they stand for as keyed hashes."""
        return HashedRecords(
            ids=tuple(sorted(map(key.hash_id, self.ids))),
            records=tuple(sorted(map(key.hash_record, self.indices))),
        )


def resolve_ids(job: Job, subject: Subject, ids: Sequence[Id] | None = None) -> RequestedRecords:
    """Find the records that the job's ids (or ``ids``) stand for; unknown ids are refused.

    Without ``records``, an id is the name of a record or its index in the training data. If any
    name is a number, every id is a name, so that a record that is gone is never mistaken for
    another. A name that several records share stands for all of them. With ``records``, ids are
    values of ``id_column``.
    """
    given = _read_ids(job) if ids is None else tuple(map(_as_id, ids))
    if not given:
        raise InvalidInput("`ids` should name one record or more. (got none)")
    counts = Counter(str(entry) for entry in given)
    unique = list(counts)
    indices, held_out = (
        _find_by_owner(job, subject) if job.records else _find_by_name_or_index(unique, subject)
    )
    unknown = [entry for entry in unique if not indices.get(entry)]
    if unknown:
        raise _unknown_ids(unknown, len(unique), held_out, job, subject)
    chosen = sorted({index for entry in unique for index in indices[entry]})
    if len(chosen) == len(subject.train):
        raise InvalidInput(
            f"Some records should be left to retain. (got all {len(chosen)} to forget) To forget "
            "everything, discard the model."
        )
    return RequestedRecords(
        indices=tuple(chosen),
        ids=tuple(unique),
        by_id={entry: indices[entry] for entry in unique},
        repeated_ids=tuple(entry for entry, count in counts.items() if count > 1),
        held_out={entry: held_out[entry] for entry in unique if entry in held_out},
    )


def _as_id(entry: Any) -> Id:
    """An id that Python code listed: a string or a whole number."""
    if isinstance(entry, str):
        return entry
    if isinstance(entry, numbers.Integral) and not isinstance(entry, bool):
        return int(entry)
    raise InvalidInput(f"Each of `ids` should be a string or a whole number. (got {entry!r})")


def _read_ids(job: Job) -> tuple[Id, ...]:
    """The ids in the job's file; in a table, from the column that the job names, if it is there."""
    if job.ids is None:
        raise InvalidInput("`ids` should be given: a text, CSV or JSON file of what to forget.")
    named = (job.id_column,) if job.id_column else ()
    return read_ids(job.ids, (*named, *COLUMNS, "file", "filename"))


RecordsOfIds = tuple[dict[str, tuple[int, ...]], dict[str, int]]
"""For every id, its training indices; and how many of its records are in val or test."""


def _find_by_owner(job: Job, subject: Subject) -> RecordsOfIds:
    assert job.records is not None
    owners = read_owners(job.records, job.id_column, subject)
    return owners.train, owners.held_out


def _find_by_name_or_index(ids: Sequence[str], subject: Subject) -> RecordsOfIds:
    by_name = indices_by_name(subject.names or ())
    names_are_numbers = any(name.isdecimal() for name in by_name)
    indices: dict[str, tuple[int, ...]] = {}
    for entry in ids:
        number = as_number(entry)
        if entry in by_name:
            indices[entry] = tuple(by_name[entry])
        elif isinstance(number, int) and not names_are_numbers and number < len(subject.train):
            indices[entry] = (number,)
    held_out = Counter([*(subject.val.names or ()), *(subject.test.names or ())])
    return indices, dict(held_out)


def _unknown_ids(
    unknown: list[str], total: int, held_out: dict[str, int], job: Job, subject: Subject
) -> InvalidInput:
    """An error that lists the ids that are not in the training data, and those held out."""
    if job.records:
        rule = f"values of the column {job.id_column!r} of {job.records}"
    elif subject.names is None:
        rule = f"indices in 0..{len(subject.train) - 1}: these records have no names"
    elif any(name.isdecimal() for name in subject.names):
        rule = "names of training records"
    else:
        rule = f"names of training records, or indices in 0..{len(subject.train) - 1}"
    message = f"Ids should be {rule}. ({len(unknown)} of {total} unknown: {_listed(unknown)})"
    unseen = [entry for entry in unknown if entry in held_out]
    if unseen:
        message += (
            f" Of these, {_listed(unseen)} are in val or test only: the model was not trained on "
            "them, so there is nothing to forget."
        )
    return InvalidInput(f"{message} Nothing was changed; correct the list and try again.")


def _listed(values: Sequence[str]) -> str:
    listed = ", ".join(repr(value) for value in values[:MAX_LISTED])
    return listed + (f" and {len(values) - MAX_LISTED} more" if len(values) > MAX_LISTED else "")
