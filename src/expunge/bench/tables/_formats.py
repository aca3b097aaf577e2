"""The formats that tables are printed and written in: terminal, Markdown, LaTeX, CSV.

Summaries and the ledger of claims share the pieces here, so that escaping is written once.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from rich.console import RenderableType

from expunge._errors import InvalidInput

FORMATS = ("terminal", "markdown", "latex", "csv")
"""The formats that :func:`render` knows."""

_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "→": r"$\to$",
    "⟨": r"$\langle$",
    "⟩": r"$\rangle$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "–": "--",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


class Printable(Protocol):
    """What can be had in every format."""

    def terminal(self) -> RenderableType:
        """Something that rich prints."""

    def markdown(self) -> str:
        """Markdown with title and notes."""

    def latex(self) -> str:
        """LaTeX that needs booktabs."""

    def csv(self) -> str:
        """Numbers, unrounded."""


def render(table: Printable, fmt: str = "terminal") -> RenderableType:
    """A table in a format: something that rich prints for the terminal, text for the others."""
    if fmt == "terminal":
        return table.terminal()
    if fmt == "markdown":
        return table.markdown()
    if fmt == "latex":
        return table.latex()
    if fmt == "csv":
        return table.csv()
    raise InvalidInput(f"Unknown format {fmt!r}. Known: {', '.join(FORMATS)}.")


def table_data(table: Printable) -> dict[str, Any]:
    """A table for programs: title, notes, and a dict per row with the numbers unrounded."""
    header, *rows = csv.reader(io.StringIO(table.csv()))
    cells = [dict(zip(header, (_as_number(cell) for cell in row), strict=True)) for row in rows]
    return {
        "title": getattr(table, "title", ""),
        "notes": list(getattr(table, "notes", ())),
        "rows": cells,
    }


def _as_number(cell: str) -> str | float | None:
    try:
        return float(cell)
    except ValueError:
        return cell or None


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], alignment: str = ""
) -> list[str]:
    """The lines of a Markdown table.

    ``alignment`` has a letter per column, ``l`` or ``r`` (default: the first left, others right).

    >>> print("\\n".join(markdown_table(["", "|rUA|"], [["SRL", "4.62"]])))
    |  | \\|rUA\\| |
    | --- | ---: |
    | SRL | 4.62 |
    """
    rules = {"l": "---", "r": "---:"}
    alignment = alignment or "l" + "r" * (len(header) - 1)
    return [
        _markdown_row(header),
        _markdown_row([rules[letter] for letter in alignment]),
        *(_markdown_row(row) for row in rows),
    ]


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def latex_escape(text: str) -> str:
    """Plain text as LaTeX.

    >>> latex_escape("10 % of a_b")
    '10 \\\\% of a\\\\_b'
    """
    return "".join(_LATEX.get(sign, sign) for sign in text)


def latex_row(cells: Iterable[str]) -> str:
    """A row of a tabular, from cells that are LaTeX already."""
    return " & ".join(cells) + r" \\"


def latex_tabular(alignment: str, header: Sequence[str], body: Sequence[str]) -> list[str]:
    """The lines of a tabular with booktabs' rules above, between and below header and body."""
    return [
        f"\\begin{{tabular}}{{{alignment}}}",
        *(f"  {line}" for line in (r"\toprule", *header, r"\midrule", *body, r"\bottomrule")),
        r"\end{tabular}",
    ]


def csv_text(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows as CSV below their header."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
