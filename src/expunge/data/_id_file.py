"""Read lists of ids from text, CSV or JSON files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from expunge._errors import DataError
from expunge._files import read_text
from expunge.data._csv_file import as_table, read_rows

COLUMNS = ("id", "ids", "index", "name")

Id = str | int


def as_number(value: str | int) -> str | int:
    """Convert a whole number in plain spelling to an int; return anything else unchanged."""
    plain = isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19
    return int(value) if plain and str(int(value)) == value else value


def read_ids(path: Path, columns: Sequence[str] = COLUMNS) -> tuple[Id, ...]:
    """The ids in ``path``, in order.

    ``.json`` holds a list and ``.jsonl`` a line per entry: an id, or an object that has it under
    one of the ``columns``, as records of texts do. ``.csv`` and ``.tsv`` have a
    header with one of the ``columns``, the first of which that is there is read; without a header,
    the first column is read. Any other file has one id per line; ``#`` at the start of a line or
    after a blank begins a comment.
    """
    kind = path.suffix.lower()
    if kind == ".json":
        ids = [_from_entry(entry, path, columns) for entry in _from_json(path)]
    elif kind == ".jsonl":
        lines = read_text(path, "UTF-8 JSON").split("\n")
        entries = [_parse(line, f"{path}, line {k}") for k, line in enumerate(lines, 1) if line]
        ids = [_from_entry(entry, path, columns) for entry in entries]
    elif kind in (".csv", ".tsv"):
        ids = _from_csv(path, columns)
    else:
        lines = read_text(path, "UTF-8 text, CSV or JSON").split("\n")
        ids = [re.split(r"(?:^|\s)#", line, maxsplit=1)[0].strip() for line in lines]
    ids_given = tuple(entry for entry in ids if entry != "")
    if not ids_given:
        raise DataError(f"The list of ids {path} is empty. It should name one example or more.")
    return ids_given


def _from_json(path: Path) -> list[Any]:
    content = _parse(read_text(path, "UTF-8 JSON"), str(path))
    if not isinstance(content, list):
        raise DataError(f"{path} should hold a JSON list. (got {type(content).__name__})")
    return content


def _parse(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place} is not valid JSON: {error}.") from error


def _from_entry(entry: Any, path: Path, columns: Sequence[str]) -> Id:
    if isinstance(entry, dict):
        name = next((name for name in columns if name in entry), None)
        if name is None:
            raise DataError(f"{path}: every object should have an id. (got {', '.join(entry)})")
        entry = entry[name]
    if isinstance(entry, bool) or not isinstance(entry, str | int):
        raise DataError(f"{path}: ids should be strings or whole numbers. (got {entry!r})")
    return entry


def _from_csv(path: Path, columns: Sequence[str]) -> list[Id]:
    rows = read_rows(path)
    header = {cell.lower() for cell in rows[0][1]} if rows else set()
    name = next((name for name in columns if name.lower() in header), None)
    if name is None:
        column = 0
    else:
        table = as_table(path, rows)
        position = table.position(name)
        assert position is not None
        column, rows = position, list(table.rows)
    for number, row in rows:
        if not row[column]:
            what = f"the column {name!r}" if name else "the first column"
            raise DataError(f"{path}, line {number}: there should be an id in {what}. (got none)")
    return [row[column] for _, row in rows]
