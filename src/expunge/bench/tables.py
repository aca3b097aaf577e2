"""Mean ± std over seeds, the best of each group marked, in several formats."""

from __future__ import annotations

import csv
import io
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.table import Table

from expunge.evaluate import METRICS


@dataclass(frozen=True)
class Row:
    """One line: a label, and for each metric its values over the seeds."""

    label: str
    values: dict[str, tuple[float, ...]]

    def mean(self, metric: str) -> float:
        """The mean over seeds, nan where there is none."""
        values = self.values.get(metric, ())
        return statistics.fmean(values) if values else math.nan

    def std(self, metric: str) -> float:
        """The sample standard deviation over seeds; nan for fewer than two."""
        values = self.values.get(metric, ())
        return statistics.stdev(values) if len(values) > 1 else math.nan


@dataclass(frozen=True)
class Group:
    """Rows that compete with each other; ``ranked=False`` for references that do not."""

    name: str
    rows: tuple[Row, ...]
    ranked: bool = True


@dataclass(frozen=True)
class Summary:
    """Groups of rows by metrics. ``ideal`` is the row that metrics of direction "ideal" aim at."""

    groups: tuple[Group, ...]
    metrics: tuple[str, ...]
    ideal: Row | None = None

    def best(self, group: Group, metric: str) -> frozenset[str]:
        """The labels of the best rows of a group; ties share the mark, unless all tie."""
        if not group.ranked or len(group.rows) < 2:
            return frozenset()
        badness = {row.label: self._badness(row, metric) for row in group.rows}
        finite = [value for value in badness.values() if not math.isnan(value)]
        if not finite or len(set(finite)) == 1:  # nothing to tell apart
            return frozenset()
        return frozenset(label for label, value in badness.items() if value == min(finite))

    def _badness(self, row: Row, metric: str) -> float:
        mean, direction = row.mean(metric), METRICS[metric].direction
        if direction == "higher":
            return -mean
        if direction == "zero":
            return abs(mean)
        if direction == "ideal":
            return math.nan if self.ideal is None else abs(mean - self.ideal.mean(metric))
        return mean if direction == "lower" else math.nan

    def cell(self, row: Row, metric: str, *, short: bool = False) -> str:
        """``mean ± std`` with the metric's decimals; only the mean for one seed; empty for none.

        ``short`` is for terminals: one decimal less and no blanks.
        """
        mean, std = row.mean(metric), row.std(metric)
        decimals, sign = METRICS[metric].decimals - short, "±" if short else " ± "
        if math.isnan(mean):
            return ""
        return f"{mean:.{decimals}f}" + ("" if math.isnan(std) else f"{sign}{std:.{decimals}f}")

    def terminal(self, title: str = "") -> Table:
        """A table for the terminal, 80 columns wide for six metrics; the best carry a star."""
        table = Table(
            title=title, header_style="bold", title_justify="left", box=box.SIMPLE_HEAD, padding=0
        )
        table.add_column("", no_wrap=True)
        for metric in self.metrics:
            table.add_column(f"{METRICS[metric].label} ", justify="right", no_wrap=True)
        for group in self.groups:
            for row in group.rows:
                cells = [
                    f"[bold green]{self.cell(row, m, short=True)}*[/]"
                    if row.label in self.best(group, m)
                    else f"{self.cell(row, m, short=True)} "
                    for m in self.metrics
                ]
                table.add_row(row.label, *cells, end_section=row is group.rows[-1])
        return table

    def markdown(self) -> str:
        """A Markdown table; the best of each group in bold."""
        header = ["", *(METRICS[m].label for m in self.metrics)]
        lines = [_line(header), _line(["---", *["---:"] * len(self.metrics)])]
        for group in self.groups:
            for row in group.rows:
                cells = [
                    f"**{self.cell(row, m)}**"
                    if row.label in self.best(group, m)
                    else self.cell(row, m)
                    for m in self.metrics
                ]
                lines.append(_line([row.label, *cells]))
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """One line a row and metric: group, label, metric, unit, n, mean, std, best."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["group", "label", "metric", "unit", "n", "mean", "std", "best"])
        for group in self.groups:
            for row in group.rows:
                for m in self.metrics:
                    values = row.values.get(m, ())
                    if values:
                        best = row.label in self.best(group, m)
                        unit = METRICS[m].unit
                        mean, std = row.mean(m), row.std(m)
                        writer.writerow(
                            [group.name, row.label, m, unit, len(values), mean, std, int(best)]
                        )
        return text.getvalue()


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
