"""Mean ± std over seeds, the best of each group marked, in every format."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich import box
from rich.markup import escape
from rich.table import Table

from expunge.evaluation import METRICS, Metric

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
WIDE = 8
"""LaTeX tables of more columns are scaled to the width of the text."""


@dataclass(frozen=True)
class Row:
    """A label, and values over seeds by metric; ``printed``: mean and std of quoted cells."""

    label: str
    values: dict[str, tuple[float, ...]]
    printed: dict[str, tuple[float, float]] = field(default_factory=dict)

    def mean(self, metric: str) -> float:
        """The mean over seeds, nan where there is none."""
        if metric in self.printed:
            return self.printed[metric][0]
        values = self.values.get(metric, ())
        return statistics.fmean(values) if values else math.nan

    def std(self, metric: str) -> float:
        """The sample standard deviation over seeds; nan for fewer than two."""
        if metric in self.printed:
            return self.printed[metric][1]
        values = self.values.get(metric, ())
        return statistics.stdev(values) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class RowGroup:
    """Rows that compete with each other; ``ranked=False`` for references that do not."""

    name: str
    rows: tuple[Row, ...]
    ranked: bool = True


@dataclass(frozen=True)
class Summary:
    """Groups of rows by metrics. ``ideal`` is the row that metrics of direction "ideal" aim at.

    ``columns`` describes names of ``metrics`` that METRICS does not have. ``together`` ranks the
    rows of all ranked groups as one.
    """

    groups: tuple[RowGroup, ...]
    metrics: tuple[str, ...]
    ideal: Row | None = None
    title: str = ""
    notes: tuple[str, ...] = ()
    columns: Mapping[str, Metric] = field(default_factory=dict)
    together: bool = False

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all groups."""
        return tuple(row for group in self.groups for row in group.rows)

    @property
    def n(self) -> int | None:
        """The number of seeds behind every cell; None where cells differ or all are empty."""
        counts = self._counts(self.rows)
        return counts[0] if len(counts) == 1 else None

    @property
    def has_n_column(self) -> bool:
        """Whether every row says its n, as cells differ in it."""
        return len(self._counts(self.rows)) > 1

    def _counts(self, rows: Iterable[Row]) -> list[int]:
        """The numbers of seeds behind the cells that hold something, each once, ascending."""
        cells = (row.values.get(metric, ()) for row in rows for metric in self.metrics)
        return sorted({len(cell) for cell in cells if cell})

    def count(self, row: Row) -> str:
        """A row's n, as in ``3``, or ``2-3`` where its cells differ."""
        counts = self._counts([row])
        return "-".join(str(n) for n in dict.fromkeys((counts[0], counts[-1]))) if counts else ""

    def metric(self, name: str) -> Metric:
        """What a column is."""
        return self.columns[name] if name in self.columns else METRICS[name]

    def heading(self, name: str) -> str:
        """A column's heading."""
        return self.metric(name).label

    def footnotes(self) -> list[str]:
        """What a reader has to know: n, and the notes."""
        counts = [] if self.n is None or self.has_n_column else [f"n = {self.n}"]
        return [*counts, *self.notes]

    def best(self, group: RowGroup, metric: str) -> frozenset[str]:
        """The labels of the best rows of a group; ties share the mark, unless all tie."""
        rivals = [g for g in self.groups if g.ranked] if self.together else [group]
        if not group.ranked or sum(len(g.rows) for g in rivals) < 2:
            return frozenset()
        badness = {row.label: self._badness(row, metric) for g in rivals for row in g.rows}
        finite = [value for value in badness.values() if not math.isnan(value)]
        if not finite or len(set(finite)) == 1:  # nothing to distinguish
            return frozenset()
        winners = {label for label, value in badness.items() if value == min(finite)}
        return frozenset(row.label for row in group.rows if row.label in winners)

    def _badness(self, row: Row, metric: str) -> float:
        """Rounded below what is printed: results are, and means of equal shares should tie."""
        mean, what = row.mean(metric), self.metric(metric)
        aim = math.nan if self.ideal is None else self.ideal.mean(metric)
        badness = {"higher": -mean, "lower": mean, "zero": abs(mean), "ideal": abs(mean - aim)}
        return round(badness.get(what.direction, math.nan), what.decimals + 2)

    def cell(self, row: Row, metric: str, *, short: bool = False) -> str:
        """``mean ± std``; only the mean for one seed, "" for none. ``short`` is for terminals."""
        mean, std, about = row.mean(metric), row.std(metric), self.metric(metric)
        sign = "±" if short else " ± "
        decimals = about.decimals - (short and about.unit in ("%", "points"))
        if math.isnan(mean):
            return ""
        return f"{mean:.{decimals}f}" + ("" if math.isnan(std) else f"{sign}{std:.{decimals}f}")

    def marked(self) -> Iterator[tuple[RowGroup, Row, dict[str, bool]]]:
        """Every row with its group, and whether it is the best by each metric."""
        for group in self.groups:
            best = {m: self.best(group, m) for m in self.metrics}
            for row in group.rows:
                yield group, row, {m: row.label in best[m] for m in self.metrics}

    def terminal(self, title: str = "") -> Table:
        """A table for the terminal, 80 columns wide for six metrics; the best carry a star."""
        table = Table(
            title=escape(title or self.title),
            caption=escape("\n".join(self.footnotes())) or None,
            caption_style="dim",
            caption_justify="left",
            header_style="bold",
            title_justify="left",
            box=box.SIMPLE_HEAD,
            padding=0,
        )
        table.add_column("", no_wrap=True)
        for metric in self.metrics:
            heading = escape(f"{self.heading(metric)} ")
            table.add_column(heading, justify="right", no_wrap=True)
        if self.has_n_column:
            table.add_column("n", justify="right", style="dim", no_wrap=True)
        for group, row, best in self.marked():
            cells = [
                f"[bold green]{self.cell(row, m, short=True)}*[/]"
                if best[m]
                else f"{self.cell(row, m, short=True)} "
                for m in self.metrics
            ]
            cells += [self.count(row)] if self.has_n_column else []
            table.add_row(escape(row.label), *cells, end_section=row is group.rows[-1])
        return table

    def markdown(self, *, notes: bool = True) -> str:
        """A Markdown table; the best of each group in bold. ``notes`` adds title, n and notes."""
        header = ["", *(self.heading(m) for m in self.metrics)]
        header += ["n"] if self.has_n_column else []
        rows = []
        for _, row, best in self.marked():
            cells = [f"**{self.cell(row, m)}**" if best[m] else self.cell(row, m) for m in best]
            cells += [self.count(row)] if self.has_n_column else []
            rows.append([row.label, *cells])
        text = "\n".join(markdown_table(header, rows)) + "\n"
        if not notes:
            return text
        above = f"**{self.title}**\n\n" if self.title else ""
        below = "".join(f"\n{_sentence(note)}\n" for note in self.footnotes())
        return above + text + below

    def latex(self, *, label: str = "") -> str:
        """A LaTeX table (booktabs; graphicx if wide); the best of each group in bold."""
        width = len(self.metrics) + self.has_n_column
        wide = width > WIDE
        headings = [latex_escape(self.heading(metric)) for metric in self.metrics]
        header = latex_row(["", *headings, *(["$n$"] if self.has_n_column else [])])
        tabular = latex_tabular("l" + "r" * width, header, self._latex_body(width))
        lines = [
            r"% needs \usepackage{booktabs}" + (r" and \usepackage{graphicx}" if wide else ""),
            r"\begin{table}[tbh]",
            f"  \\caption{{{self._latex_caption()}}}",
            *([f"  \\label{{{label}}}"] if label else []),
            r"  \centering",
            *([r"  \resizebox{\textwidth}{!}{%"] if wide else []),
            *(f"  {line}" for line in tabular),
            *(["  }"] if wide else []),
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def cells(self) -> list[dict[str, Any]]:
        """The cells that hold something, for programs."""
        return [
            {
                "group": group.name,
                "label": row.label,
                "metric": m,
                "unit": self.metric(m).unit,
                "n": len(row.values.get(m, ())) or None,
                "mean": row.mean(m),
                "std": row.std(m),
                "best": int(best[m]),
            }
            for group, row, best in self.marked()
            for m in self.metrics
            if not math.isnan(row.mean(m))
        ]

    def csv(self) -> str:
        """One line per cell."""
        return csv_text(self.cells())

    def data(self) -> dict[str, Any]:
        """As values of JSON: title, notes, and cells."""
        return {"title": self.title, "notes": [*self.notes], "rows": self.cells()}

    def _latex_caption(self) -> str:
        notes = [self.title] if self.title else []
        notes += ["mean ± std over seeds, the best in bold", *self.footnotes()]
        sentences = ". ".join(note[:1].upper() + note[1:].rstrip(".") for note in notes)
        return re.sub(r"\b[Nn] = (\d+)", r"$n = \1$", latex_escape(sentences) + ".")

    def _latex_body(self, width: int) -> list[str]:
        lines: list[str] = []
        current = None
        for group, row, best in self.marked():
            if current is not None and group is not current:
                lines.append(f"\\cmidrule(lr){{2-{width + 1}}}")
            current = group
            cells = [_latex_cell(self.cell(row, m), bold=best[m]) for m in self.metrics]
            cells += [self.count(row).replace("-", "--")] if self.has_n_column else []
            lines.append(latex_row([latex_escape(row.label), *cells]))
        return lines


def _latex_cell(text: str, *, bold: bool) -> str:
    text = latex_escape(text)
    text = f"$-${text[1:]}" if text.startswith("-") else text
    return f"\\textbf{{{text}}}" if bold else text


def _sentence(note: str) -> str:
    return note if note.endswith(".") else f"{note}."


# The pieces of each format.


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
