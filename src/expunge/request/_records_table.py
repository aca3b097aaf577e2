"""The table of records: a CSV file that says to whom each training record belongs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from expunge._errors import DataError, InvalidInput
from expunge.data._csv_file import read_table
from expunge.request.subject._load import Subject

RECORD_COLUMNS = ("index", "name", "file", "filename")
"""Columns that identify the record of a line, in order of preference."""


@dataclass(frozen=True)
class RecordOwners:
    """The records of each owner: their training indices, and how many are in val or test."""

    train: dict[str, tuple[int, ...]]
    held_out: dict[str, int]


def read_owners(path: Path, id_column: str | None, subject: Subject) -> RecordOwners:
    """Which records belong to each value of ``id_column``; every line must be about a record.

    Lines about records of val or test are only counted: the model was not trained on those.
    """
    # Find the two columns.
    table = read_table(path)
    key = next((name for name in RECORD_COLUMNS if table.position(name) is not None), None)
    if key is None:
        raise DataError(
            f"{path} should have a column {', '.join(RECORD_COLUMNS[:-1])} or {RECORD_COLUMNS[-1]} "
            f"that says which record a line is about. (got {_listed(table.columns)})"
        )
    others = [name for name in table.columns if name.lower() != key]
    owner_position = None if id_column is None else table.position(id_column)
    if owner_position is None:
        raise InvalidInput(
            f"`id_column` should be a column of {path}: {_listed(others)}. (got {id_column!r})"
        )
    key_position = table.position(key)
    assert key_position is not None

    # Go through the lines: training records by owner, held-out ones counted, others refused.
    locate = _record_locator(subject, key, path)
    held_out_names = {*(subject.val.names or ()), *(subject.test.names or ())}
    train: dict[str, list[int]] = {}
    held_out: dict[str, int] = {}
    unknown: list[str] = []
    for number, row in table.rows:
        record, owner = row[key_position], row[owner_position]
        indices = locate(record)
        if not indices and record not in held_out_names:
            unknown.append(f"{record!r} on line {number}")
        elif owner and indices:
            train.setdefault(owner, []).extend(indices)
        elif owner:
            held_out[owner] = held_out.get(owner, 0) + 1
    if unknown:
        rule = f"an index in 0..{len(subject.train) - 1}" if key == "index" else "a known name"
        raise DataError(
            f"{path}: every line should have {rule} of a record in its column {key!r}. "
            f"({len(unknown)} do not: {', '.join(unknown[:5])})"
        )
    unique = {owner: tuple(sorted(set(indices))) for owner, indices in train.items()}
    return RecordOwners(unique, held_out)


def _record_locator(subject: Subject, key: str, path: Path) -> Callable[[str], list[int]]:
    """A function from the index or name in a line to the training records it stands for."""
    if key == "index":
        size = len(subject.train)

        def by_index(text: str) -> list[int]:
            plain = text.isascii() and text.isdigit() and len(text) < 19
            return [int(text)] if plain and int(text) < size else []

        return by_index
    if subject.names is None:
        raise InvalidInput(
            f"{path} has the column {key!r}, but the training records have no names. Give "
            "their indices in a column 'index'."
        )
    indices = indices_by_name(subject.names)
    return lambda name: indices.get(name, [])


def indices_by_name(names: Sequence[str]) -> dict[str, list[int]]:
    """The indices of every name: several, if records share it."""
    indices: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        indices.setdefault(name, []).append(index)
    return indices


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(repr(column) for column in columns) or "none"
