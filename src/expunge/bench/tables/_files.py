"""Tables into files and onto the screen."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.table import Table

from expunge._errors import InvalidInput
from expunge._files import write_text
from expunge.bench._records import Record
from expunge.bench.tables._paper import TABLES
from expunge.bench.tables._summary import Summary

FORMATS = ("terminal", "markdown", "latex", "csv")
"""What :func:`render` knows."""


def render(summary: Summary, fmt: str = "terminal") -> Table | str:
    """A summary in a format: something that rich prints for the terminal, text for the others."""
    if fmt == "terminal":
        return summary.terminal()
    if fmt == "markdown":
        return summary.markdown(notes=True)
    if fmt == "latex":
        return summary.latex()
    if fmt == "csv":
        return summary.csv()
    raise InvalidInput(f"Unknown format {fmt!r}. Known: {', '.join(FORMATS)}.")


def write_tables(
    records: Iterable[Record], folder: str | Path, names: Sequence[str] | None = None
) -> list[Path]:
    """Write tables as ``name.md``, ``.tex`` and ``.csv``; all of them unless named.

    A table that the records have nothing for is not written.
    """
    records, folder = list(records), Path(folder)
    chosen = [TABLES.name(name) for name in (TABLES if names is None else names)]
    written = []
    for name in chosen:
        if summaries := TABLES[name](records):
            texts = {
                "md": "\n".join(summary.markdown(notes=True) for summary in summaries),
                "tex": "\n".join(
                    summary.latex(label=f"tab:{name}" + (f"-{k}" if k > 1 else ""))
                    for k, summary in enumerate(summaries, start=1)
                ),
                "csv": joined_csv(summaries),
            }
            for ending, text in texts.items():
                write_text(folder / f"{name}.{ending}", text)
                written.append(folder / f"{name}.{ending}")
    return written


def joined_csv(summaries: Sequence[Summary]) -> str:
    """Several summaries in one file, whose first column ``part`` is the title."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for index, summary in enumerate(summaries):
        header, *lines = csv.reader(io.StringIO(summary.csv()))
        if index == 0:
            writer.writerow(["part", *header])
        writer.writerows([summary.title, *line] for line in lines)
    return text.getvalue()
