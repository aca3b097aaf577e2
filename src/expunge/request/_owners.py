"""A table with one line a record: which person, or whatever else, each belongs to."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from pathlib import Path

from expunge._errors import DataError, InvalidInput
from expunge.request.subject._load import Subject

KEYS = ("index", "name", "file", "filename")
"""Columns that say which record a line is about, in order of preference."""


@dataclass(frozen=True)
class Table:
    """A CSV or TSV file: its columns, and its lines with their numbers."""

    path: Path
    columns: tuple[str, ...]
    lines: tuple[tuple[int, tuple[str, ...]], ...]

    def find(self, name: str) -> int | None:
        """The place of a column, whatever its case."""
        lowered = [column.lower() for column in self.columns]
        return lowered.index(name.lower()) if name.lower() in lowered else None


@dataclass(frozen=True)
class Owners:
    """The records of every value of an id column: training indices, and how many held out."""

    train: dict[str, tuple[int, ...]]
    held_out: dict[str, int]


def read_table(path: Path) -> Table:
    """A CSV (or, by its name, TSV) file with a header."""
    try:
        text = path.read_text(encoding="utf-8-sig")
        delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        rows = [(reader.line_num, tuple(cell.strip() for cell in row)) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(
            f"The table {path} cannot be read: {error}. It should be a UTF-8 CSV or TSV file."
        ) from error
    rows = [(number, row) for number, row in rows if any(row)]
    if not rows:
        raise DataError(f"The table {path} is empty. It should have a header and lines.")
    return Table(path, rows[0][1], tuple(rows[1:]))


def read_owners(path: Path, column: str | None, subject: Subject) -> Owners:
    """Which records belong to each value of ``column``; every line must be about a record.

    A line about a record of val or test is counted: it was not trained on.
    """
    table = read_table(path)
    key = next((name for name in KEYS if table.find(name) is not None), None)
    if key is None:
        raise DataError(
            f"{path} should have a column {', '.join(KEYS[:-1])} or {KEYS[-1]} that says which "
            f"record a line is about. (got {_listed(table.columns)})"
        )
    others = [name for name in table.columns if name.lower() != key]
    wanted = None if column is None else table.find(column)
    if wanted is None:
        raise InvalidInput(
            f"`id_column` should be a column of {path}: {_listed(others)}. (got {column!r})"
        )
    place = table.find(key)
    assert place is not None
    train, held = _Places.of(subject, key, path), _held_names(subject)
    found: dict[str, list[int]] = {}
    aside: dict[str, int] = {}
    unknown: list[str] = []
    for number, row in table.lines:
        value = row[place] if place < len(row) else ""
        owner = row[wanted] if wanted < len(row) else ""
        indices = train.indices(value)
        if not indices and value not in held:
            unknown.append(f"{value!r} on line {number}")
        elif owner and indices:
            found.setdefault(owner, []).extend(indices)
        elif owner:
            aside[owner] = aside.get(owner, 0) + 1
    if unknown:
        rule = f"an index in 0..{len(subject.train) - 1}" if key == "index" else "a known name"
        raise DataError(
            f"{path}: every line should have {rule} of a record in its column {key!r}. "
            f"({len(unknown)} have not: {', '.join(unknown[:5])})"
        )
    return Owners({owner: tuple(sorted(set(own))) for owner, own in found.items()}, aside)


@dataclass(frozen=True)
class _Places:
    """Where the training records are, by index or by name."""

    size: int
    names: dict[str, list[int]] | None

    @classmethod
    def of(cls, subject: Subject, key: str, path: Path) -> _Places:
        if key == "index":
            return cls(len(subject.train), None)
        if subject.names is None:
            raise InvalidInput(
                f"{path} has the column {key!r}, but the training records have no names. Give "
                "their indices in a column 'index'."
            )
        return cls(len(subject.train), by_name(subject.names))

    def indices(self, value: str) -> list[int]:
        if self.names is not None:
            return self.names.get(value, [])
        plain = value.isascii() and value.isdigit() and len(value) < 19
        return [int(value)] if plain and int(value) < self.size else []


def by_name(names: tuple[str, ...]) -> dict[str, list[int]]:
    """The indices of every name."""
    places: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        places.setdefault(name, []).append(index)
    return places


def _held_names(subject: Subject) -> set[str]:
    return {*(subject.val.names or ()), *(subject.test.names or ())}


def _listed(columns: list[str] | tuple[str, ...]) -> str:
    return ", ".join(repr(column) for column in columns) or "none"
