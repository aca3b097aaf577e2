"""The table of records: a CSV file that says to whom each record belongs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from expunge._errors import DataError, InvalidInput
from expunge.data import abbreviated, read_table
from expunge.request.subject._load import Subject

RECORD_COLUMNS = ("index", "name", "file", "filename")
"""Columns that identify the record of a line, in order of preference."""


SPLITS = ("train", "val", "test")
Places = dict[str, list[int]]
"""Indices into each of the :data:`SPLITS`; a split without any is left out."""


@dataclass(frozen=True)
class RecordOwners:
    """The records of each owner, and how many training records have none."""

    places: dict[str, Places]
    unmapped: int


def read_owners(path: Path, id_column: str | None, subject: Subject) -> RecordOwners:
    """Which records belong to each value of ``id_column``; every line must be about a record."""
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

    # Go through the lines: a line that is about no record is refused.
    locate = _record_locator(subject, key, path)
    owned: dict[str, dict[str, set[int]]] = {}
    unknown: list[str] = []
    for number, row in table.rows:
        record, owner = row[key_position], row[owner_position]
        places = locate(record)
        if not places:
            unknown.append(f"{abbreviated(record)} on line {number}")
        elif owner:
            records = owned.setdefault(owner, {})
            for split, indices in places.items():
                records.setdefault(split, set()).update(indices)
    if unknown:
        rule = f"an index in 0..{len(subject.train) - 1}" if key == "index" else "a known name"
        raise DataError(
            f"{path}: every line should have {rule} of a record in its column {key!r}. "
            f"({len(unknown)} do not: {', '.join(unknown[:5])})"
        )
    mapped = set().union(*(records.get("train", ()) for records in owned.values()))
    return RecordOwners(
        {
            owner: {split: sorted(indices) for split, indices in records.items()}
            for owner, records in owned.items()
        },
        unmapped=len(subject.train) - len(mapped),
    )


def _record_locator(subject: Subject, key: str, path: Path) -> Callable[[str], Places]:
    """A function from the index or name in a line to the records it stands for."""
    if key == "index":
        size = len(subject.train)

        def by_index(text: str) -> Places:
            plain = text.isascii() and text.isdigit() and len(text) < 19
            return {"train": [int(text)]} if plain and int(text) < size else {}

        return by_index
    if subject.names is None:
        raise InvalidInput(
            f"{path} has the column {key!r}, but the training records have no names. Give "
            "their indices in a column 'index'."
        )
    places = places_by_name(subject)
    return lambda name: places.get(name, {})


def places_by_name(subject: Subject) -> dict[str, Places]:
    """Where the records of every name are: several, if records share it."""
    places: dict[str, Places] = {}
    for split in SPLITS:
        for index, name in enumerate(getattr(subject, split).names or ()):
            places.setdefault(name, {}).setdefault(split, []).append(index)
    return places


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(repr(column) for column in columns) or "none"
