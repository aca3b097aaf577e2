"""Mean ± std over seeds, the best of each group marked, in every format."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

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

    def footnotes(self) -> list[str]:
        """What a reader has to know: n, unless it has a column, and the notes."""
        counts = [] if self.has_n_column else [f"n = {n}" for n in self._counts(self.rows)]
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

    def marked(self, group: RowGroup) -> Iterator[tuple[Row, dict[str, bool]]]:
        """Every row of a group, and whether it is the best by each metric."""
        best = {m: self.best(group, m) for m in self.metrics}
        for row in group.rows:
            yield row, {m: row.label in best[m] for m in self.metrics}

    def _texts(
        self, show: Callable[[str, bool], str], *, short: bool = False
    ) -> tuple[list[str], list[list[list[str]]]]:
        """The header, and the rows of each group: label, cells and n, as ``show`` writes cells."""
        header = ["", *(self.metric(m).label for m in self.metrics)]
        groups = [
            [
                [row.label, *(show(self.cell(row, m, short=short), best[m]) for m in best)]
                + ([show(self.count(row), False)] if self.has_n_column else [])
                for row, best in self.marked(group)
            ]
            for group in self.groups
        ]
        return header + (["n"] if self.has_n_column else []), groups

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

        def show(text: str, best: bool) -> str:
            return f"[bold green]{text}*[/]" if best else f"{text} "

        header, groups = self._texts(show, short=True)
        for heading in header:
            justify: Literal["left", "right"] = "right" if heading else "left"
            table.add_column(escape(f"{heading} "), justify=justify, no_wrap=True)
        for group in groups:
            for label, *cells in group:
                table.add_row(escape(label), *cells)
            table.add_section()
        return table

    def markdown(self, *, notes: bool = True) -> str:
        """A Markdown table; the best of each group in bold. ``notes`` adds title, n and notes."""
        header, groups = self._texts(lambda text, best: f"**{text}**" if best else text)
        rows = (row for group in groups for row in group)
        text = "\n".join(markdown_table(header, rows)) + "\n"
        if not notes:
            return text
        above = f"**{self.title}**\n\n" if self.title else ""
        below = "".join(f"\n{note.removesuffix('.')}.\n" for note in self.footnotes())
        return above + text + below

    def latex(self, *, label: str = "") -> str:
        """A LaTeX table (booktabs; graphicx if wide); the best of each group in bold."""
        header, groups = self._texts(_latex_cell)
        wide = len(header) > WIDE + 1
        body: list[str] = []
        for group in groups:
            body += [f"\\cmidrule(lr){{2-{len(header)}}}"] if body and group else []
            body += [_latex_row([latex_escape(name), *cells]) for name, *cells in group]
        head = _latex_row("$n$" if name == "n" else latex_escape(name) for name in header)
        tabular = [
            f"\\begin{{tabular}}{{l{'r' * (len(header) - 1)}}}",
            *(f"  {line}" for line in (r"\toprule", head, r"\midrule", *body, r"\bottomrule")),
            r"\end{tabular}",
        ]
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
            for group in self.groups
            for row, best in self.marked(group)
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


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(text: str, best: bool) -> str:
    text = re.sub(r"(?<=\d)-(?=\d)", "--", latex_escape(text))
    text = f"$-${text[1:]}" if text.startswith("-") else text
    return f"\\textbf{{{text}}}" if best else text


def csv_text(rows: Sequence[Mapping[str, object]]) -> str:
    """Rows as CSV below their names; None is an empty cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
