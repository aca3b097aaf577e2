"""Read lists of ids from text, CSV or JSON files."""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from expunge._errors import DataError
from expunge._files import read_text
from expunge.data._csv_file import check_header, read_rows

COLUMNS = ("id", "ids", "index", "name")

Id = str | int


def as_number(value: str | int) -> str | int:
    """Convert a whole number in plain spelling to an int; return anything else unchanged."""
    plain = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19
    return int(value) if plain and str(int(value)) == value else value


def abbreviated(entry: Id) -> str:
    """The first characters of an id, for messages: who is meant stays in the list of ids.

    >>> abbreviated("anna@example.org"), abbreviated("bob"), abbreviated(7)
    ("'ann…'", "'b…'", "'…'")
    """
    text = str(entry)
    return repr(f"{text[: min(3, len(text) // 2)]}…")


def read_ids(path: Path) -> tuple[Id, ...]:
    """The ids in ``path``, in order; see :func:`read_placed_ids`."""
    return tuple(entry for _, entry in read_placed_ids(path))


def read_placed_ids(path: Path, columns: Sequence[str] = COLUMNS) -> list[tuple[str, Id]]:
    """The ids in ``path``, in order, each with its place: its line, or its number in a JSON list.

    Entries of ``.json`` and ``.jsonl`` are ids, or objects that have one under one of the
    ``columns``. ``.csv`` and ``.tsv`` have a header with one of the ``columns``, or the ids in the
    first column. Any other file has one id per line; ``#`` begins a comment.
    """
    kind = path.suffix.lower()
    placed: list[tuple[str, Id]]
    if kind in (".json", ".jsonl"):
        entries = read_json_entries(path)
        placed = [(place, _from_entry(entry, place, path, columns)) for place, entry in entries]
    elif kind in (".csv", ".tsv"):
        placed = _from_csv(path, columns)
    else:
        lines = _numbered(read_text(path, "UTF-8 text, CSV or JSON"))
        placed = [(place, re.split(r"(?:^|\s)#", line, maxsplit=1)[0]) for place, line in lines]
        placed = [(place, str(entry).strip()) for place, entry in placed]
    placed = [(place, entry) for place, entry in placed if entry != ""]
    if not placed:
        raise DataError(f"The list of ids {path} is empty. It should name one example or more.")
    return placed


def _numbered(text: str) -> list[tuple[str, str]]:
    return [(f"line {k}", line) for k, line in enumerate(text.split("\n"), 1)]


def read_json_entries(path: Path) -> list[tuple[str, Any]]:
    """What a file holds, with its places: ``.json`` is a list, others have a value a line.

    So does a ``.json`` that begins with an object, as those of TOFU do.
    """
    text = read_text(path, "UTF-8 JSON")
    if path.suffix.lower() != ".json" or re.match(r"\s*\{.*\}\s*\n\s*\{", text):
        lines = [(place, line) for place, line in _numbered(text) if line.strip()]
        return [(place, _parse(line, f"{path}, {place}")) for place, line in lines]
    content = _parse(text, str(path))
    if not isinstance(content, list):
        raise DataError(f"{path} should hold a JSON list. (got {type(content).__name__})")
    return [(f"entry {k}", entry) for k, entry in enumerate(content, 1)]


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: this is not valid JSON: {error}.") from error


def _from_entry(entry: Any, place: str, path: Path, columns: Sequence[str]) -> Id:
    if isinstance(entry, dict):
        name = next((name for name in columns if name in entry), None)
        if name is None:
            raise DataError(
                f"{path}, {place}: every object should have an id. (got {', '.join(entry)})"
            )
        entry = entry[name]
    checked = as_id(entry)
    if checked is None:
        raise DataError(
            f"{path}, {place}: ids should be strings or whole numbers. (got {type(entry).__name__})"
        )
    return checked


def as_id(entry: Any) -> Id | None:
    """``entry`` as a string or a whole number; None if it is neither."""
    if isinstance(entry, str):
        return entry
    whole = isinstance(entry, numbers.Integral) and not isinstance(entry, bool)
    return int(entry) if whole else None


def _from_csv(path: Path, columns: Sequence[str]) -> list[tuple[str, Id]]:
    rows = read_rows(path)
    header = [cell.lower() for cell in rows[0][1]] if rows else []
    name = next((name for name in columns if name.lower() in header), None)
    column = 0 if name is None else header.index(name.lower())
    if name is not None:
        check_header(path, *rows.pop(0))
    for number, row in rows:
        if not row[column]:
            what = f"the column {name!r}" if name else "the first column"
            raise DataError(f"{path}, line {number}: there should be an id in {what}. (got none)")
    return [(f"line {number}", row[column]) for number, row in rows]
