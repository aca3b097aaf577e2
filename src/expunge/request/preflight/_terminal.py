"""The preflight as text and small tables, for a console that prints no control characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from expunge._durations import format_duration
from expunge.evidence import PreflightFindings

if TYPE_CHECKING:
    from expunge.request.preflight._preflight import Duplicate

MAX_CLASSES = 12
"""Classes that are listed."""


def render_preflight(
    findings: PreflightFindings,
    duplicates: Sequence[Duplicate],
    example: tuple[str, str] | None = None,
) -> RenderableType:
    """The findings section by section, a few of the duplicates, then warnings and notes."""
    ids, cost = findings.ids, findings.cost
    accuracies = [
        (
            "to forget" if name == "forget" else name,
            f"{a.value:.1f}",
            f"{a.low:.1f} to {a.high:.1f}",
        )
        for name, a in findings.fit.accuracy.items()
    ]
    blocks = [
        _heading("Does the model fit the data?", "yes" if findings.fit.fits else "NO"),
        _table(("", "accuracy %", "interval"), accuracies),
        _line(findings.hardness.sentence),
    ]
    if example is not None:
        blocks += [
            _heading("What the model reads", "(an unseen record)"),
            _line(f"prompt  {example[0]}"),
            _line(f"answer  {example[1]}"),
        ]
    classes = [
        (row.name, f"{row.forgotten:,}", f"{row.train:,}", f"{100 * row.share:.1f}")
        for row in ids.classes[:MAX_CLASSES]
    ]
    blocks += [
        _heading("What is to be forgotten"),
        _line(
            f"{ids.records:,} of {ids.train:,} training records ({100 * ids.share:.1f} %), "
            f"requested by {ids.asked:,} id{'s' if ids.asked != 1 else ''}"
        ),
        _table(("class", "to forget", "of", "share %"), classes),
    ]
    if len(ids.classes) > MAX_CLASSES:
        blocks.append(_line(f"and {len(ids.classes) - MAX_CLASSES} more classes"))
    blocks.append(_heading("Duplicates that remain"))
    blocks.append(_line(f"{findings.duplicates.exact:,} with the same bytes"))
    blocks += [
        _line(f"{each.split} {each.index} is the same as train {each.forgotten}")
        for each in duplicates[:5]
    ]
    if in_retain := findings.duplicates.in_retain:
        blocks.append(
            _line(f"In retain: {in_retain:,}. To forget them as well: --include-duplicates.")
        )
    seconds = cost.epoch_seconds
    duration = f"about {format_duration(seconds)}" if seconds >= 0.1 else "less than 0.1 s"
    return Group(
        *blocks,
        _heading("What it costs", cost.advice),
        _line(cost.sentence),
        _line(f"An epoch takes {duration}. {cost.note}"),
        *(Text.assemble(("Warning: ", "bold yellow"), text) for text in findings.warnings),
        *(Text.assemble(("Note: ", "bold"), text) for text in findings.notes),
    )


def _heading(title: str, answer: str = "") -> RenderableType:
    return Text.assemble((title, "bold"), (f"  {answer}" if answer else ""))


def _line(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 0, 2))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> RenderableType:
    table = Table(box=None, header_style="dim", pad_edge=True)
    table.add_column(columns[0], no_wrap=True, max_width=28)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
