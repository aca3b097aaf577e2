"""Summaries as LaTeX tables with the rules of booktabs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from expunge.bench.tables._summary import Row, Summary

WIDE = 8
"""Tables of more columns are scaled to the width of the text."""

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "–": "--",
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
}


def escape(text: str) -> str:
    """Plain text as LaTeX.

    >>> escape("10 % of a_b")
    '10 \\\\% of a\\\\_b'
    """
    return "".join(_SPECIAL.get(sign, sign) for sign in text)


def latex_table(summary: Summary, label: str = "") -> str:
    """A table environment: caption, rules, one line a row. Needs booktabs, and graphicx if wide."""
    width = len(summary.metrics) + summary.has_n_column
    wide = width > WIDE
    lines = [
        r"% needs \usepackage{booktabs}" + (r" and \usepackage{graphicx}" if wide else ""),
        r"\begin{table}[tbh]",
        f"  \\caption{{{_caption(summary)}}}",
        *([f"  \\label{{{label}}}"] if label else []),
        r"  \centering",
        *([r"  \resizebox{\textwidth}{!}{%"] if wide else []),
        f"  \\begin{{tabular}}{{l{'r' * width}}}",
        r"    \toprule",
        *_header(summary),
        r"    \midrule",
        *_body(summary, width),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(["  }"] if wide else []),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _caption(summary: Summary) -> str:
    said = [summary.title] if summary.title else []
    said += [r"mean ± std over seeds, the best in bold", *summary.footnotes()]
    text = escape(". ".join(note[:1].upper() + note[1:].rstrip(".") for note in said)) + "."
    return re.sub(r"\b[Nn] = (\d+)", r"$n = \1$", text)


def _header(summary: Summary) -> list[str]:
    n = ["$n$"] if summary.has_n_column else []
    over = [getattr(summary.metric(m), "over", "") for m in summary.metrics]
    if not any(over):
        return [_line(["", *(escape(summary.heading(m)) for m in summary.metrics), *n])]
    spans, rules, at = [""], [], 2
    for name, same in itertools.groupby(over):
        size = len(list(same))
        spans.append(f"\\multicolumn{{{size}}}{{c}}{{{escape(name)}}}")
        rules.append(f"\\cmidrule(lr){{{at}-{at + size - 1}}}" if name else "")
        at += size
    labels = [escape(summary.metric(m).label) for m in summary.metrics]
    return [
        _line([*spans, *[""] * len(n)]),
        "    " + " ".join(rule for rule in rules if rule),
        _line(["", *labels, *n]),
    ]


def _body(summary: Summary, width: int) -> list[str]:
    lines: list[str] = []
    current = None
    for group, row, best in summary.marked():
        if current is not None and group is not current:
            lines.append(f"    \\cmidrule(lr){{2-{width + 1}}}")
        current = group
        cells = [_cell(summary, row, m, bold=best[m]) for m in summary.metrics]
        cells += [escape(summary.count(row)).replace("-", "--")] if summary.has_n_column else []
        lines.append(_line([escape(row.label), *cells]))
    return lines


def _cell(summary: Summary, row: Row, metric: str, *, bold: bool) -> str:
    text = escape(summary.cell(row, metric))
    text = f"$-${text[1:]}" if text.startswith("-") else text
    return f"\\textbf{{{text}}}" if bold else text


def _line(cells: Sequence[str]) -> str:
    return "    " + " & ".join(cells) + r" \\"
