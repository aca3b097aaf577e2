"""Read lists of image ids from text, CSV or JSON files."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

from expunge._errors import DataError

COLUMNS = ("id", "ids", "index", "name")

Id = str | int


def as_number(value: str | int) -> str | int:
    """Convert a whole number in plain spelling to an int; return anything else unchanged."""
    plain = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19
    return int(value) if plain and str(int(value)) == value else value


def read_ids(path: Path) -> tuple[Id, ...]:
    """The ids in ``path``, in order.

    ``.json`` holds a list. ``.csv`` and ``.tsv`` have a header with one of the columns id, ids,
    index or name; without a header, the first column is read. Any other file has one id per line;
    ``#`` at the start of a line or after a blank begins a comment.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(
            f"The list of ids {path} cannot be read: {error}. It should be a UTF-8 text, CSV or "
            "JSON file."
        ) from error
    kind = path.suffix.lower()
    if kind == ".json":
        ids = _from_json(path, text)
    elif kind in (".csv", ".tsv"):
        ids = _from_csv(path, text, "\t" if kind == ".tsv" else ",")
    else:
        ids = [re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip() for line in text.splitlines()]
    ids_given = tuple(entry for entry in ids if entry != "")
    if not ids_given:
        raise DataError(f"The list of ids {path} is empty. It should name one image or more.")
    return ids_given


def _from_json(path: Path, text: str) -> list[Id]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not valid JSON: {error}.") from error
    if not isinstance(content, list):
        raise DataError(f"{path} should hold a JSON list. (got {type(content).__name__})")
    for entry in content:
        if isinstance(entry, bool) or not isinstance(entry, str | int):
            raise DataError(f"{path}: ids should be strings or whole numbers. (got {entry!r})")
    return content


def _from_csv(path: Path, text: str, delimiter: str) -> list[Id]:
    try:
        rows = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if any(row)]
    except csv.Error as error:
        raise DataError(f"{path} is not valid CSV: {error}.") from error
    header = [cell.strip().lower() for cell in rows[0]] if rows else []
    column = next((header.index(name) for name in COLUMNS if name in header), None)
    if column is None:
        return [row[0].strip() for row in rows]
    for number, row in enumerate(rows[1:], start=2):
        if len(row) <= column or not row[column].strip():
            raise DataError(f"{path}: row {number} should have a value for {header[column]!r}.")
    return [row[column].strip() for row in rows[1:]]
