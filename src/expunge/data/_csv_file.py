"""Read CSV files strictly: a line that can be misread is refused, with its number."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

from expunge._errors import DataError
from expunge._files import read_text

Row = tuple[int, tuple[str, ...]]
"""The number of the line that a row begins on, and its cells without surrounding blanks."""


def read_table(path: Path) -> tuple[tuple[str, ...], list[Row]]:
    """The columns and the rows of a CSV file with a header (or TSV, if its name ends in .tsv)."""
    rows = read_rows(path)
    if not rows:
        raise DataError(f"The table {path} is empty. It should have a header and lines.")
    check_header(path, *rows[0])
    return rows[0][1], rows[1:]


def check_header(path: Path, number: int, header: tuple[str, ...]) -> None:
    """Raise unless the first row of a file names every column once."""
    counts = Counter(column.lower() for column in header if column)
    repeated = [column for column, count in counts.items() if count > 1]
    if repeated:
        raise DataError(
            f"{path}, line {number}: every column should be named once. "
            f"(got {repeated[0]!r} {counts[repeated[0]]} times) Remove or rename the others."
        )


def read_rows(path: Path) -> list[Row]:
    """All rows of a CSV or TSV file that are not blank, each with as many cells as the first."""
    text = read_text(path, "UTF-8 CSV or TSV")
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[Row] = []
    start = 1
    try:
        for row in reader:
            cells = tuple(cell.strip() for cell in row)
            if any(cells):
                rows.append((start, cells))
            start = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{path}, line {start}: this is not valid CSV: {error}.") from error
    for number, cells in rows:
        if len(cells) != len(rows[0][1]):
            raise DataError(
                f"{path}, line {number}: every line should have {len(rows[0][1])} cells, as the "
                f"first has. (got {len(cells)}) Put a cell that contains the delimiter into quotes."
            )
    return rows
