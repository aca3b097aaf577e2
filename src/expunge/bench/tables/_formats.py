"""The formats of tables and claims: Markdown, LaTeX and CSV, with their escapes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

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


def markdown_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], alignment: str = ""
) -> list[str]:
    """The lines of a Markdown table; ``alignment`` has an ``l`` or ``r`` per column."""
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
    """Plain text as LaTeX."""
    return "".join(_LATEX.get(sign, sign) for sign in text)


def latex_row(cells: Iterable[str]) -> str:
    """A row of a tabular, from cells that are LaTeX already."""
    return " & ".join(cells) + r" \\"


def latex_tabular(alignment: str, header: str, body: Sequence[str]) -> list[str]:
    """The lines of a tabular with booktabs' rules above, between and below header and body."""
    return [
        f"\\begin{{tabular}}{{{alignment}}}",
        *(f"  {line}" for line in (r"\toprule", header, r"\midrule", *body, r"\bottomrule")),
        r"\end{tabular}",
    ]


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV below their names; None is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
