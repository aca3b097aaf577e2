"""The preflight as text and small tables, for a console that prints no control characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from expunge._durations import format_duration
from expunge.evidence import Cost, DuplicateCounts, PreflightFindings, RecordCounts

if TYPE_CHECKING:
    from expunge.request.preflight._check import Duplicate

MAX_CLASSES = 12
"""Classes that are listed."""


def render_preflight(
    findings: PreflightFindings,
    duplicates: Sequence[Duplicate],
    example: tuple[str, str] | None = None,
) -> RenderableType:
    """The findings section by section, a few of the duplicates, then warnings and notes."""
    blocks: list[RenderableType] = [
        _heading("Does the model fit the data?", "yes" if findings.fit.fits else "NO"),
        _accuracy_table(findings),
        _line(findings.hardness.sentence),
        *([] if example is None else _example_section(*example)),
        _heading("What is to be forgotten"),
        *_ids_section(findings.ids),
        _heading("Duplicates that remain"),
        *_duplicates_section(findings.duplicates, duplicates),
        _heading("What it costs", findings.cost.advice),
        *_cost_section(findings.cost),
    ]
    blocks += [
        Text.assemble(("Warning: ", "bold yellow"), Text(text)) for text in findings.warnings
    ]
    blocks += [Text.assemble(("Note: ", "bold"), Text(text)) for text in findings.notes]
    return Group(*blocks)


def _heading(title: str, answer: str = "") -> Text:
    return Text.assemble((title, "bold"), (f"  {answer}" if answer else ""))


def _line(text: str) -> RenderableType:
    return Padding(Text(text), (0, 0, 0, 2))


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=True)
    table.add_column(columns[0], no_wrap=True, max_width=28)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _accuracy_table(findings: PreflightFindings) -> Table:
    table = _table("", "accuracy %", "interval")
    for name, value in findings.fit.accuracy.items():
        shown = "to forget" if name == "forget" else name
        table.add_row(shown, f"{value.value:.1f}", f"{value.low:.1f} to {value.high:.1f}")
    return table


def _example_section(prompt: str, answer: str) -> list[RenderableType]:
    heading = _heading("What the model reads", "(an unseen record)")
    return [heading, _line(f"prompt  {prompt}"), _line(f"answer  {answer}")]


def _ids_section(ids: RecordCounts) -> list[RenderableType]:
    blocks: list[RenderableType] = [
        _line(
            f"{ids.records:,} of {ids.train:,} training records ({100 * ids.share:.1f} %), "
            f"requested by {ids.asked:,} id{'s' if ids.asked != 1 else ''}"
        )
    ]
    table = _table("class", "to forget", "of", "share %")
    for row in ids.classes[:MAX_CLASSES]:
        name = Text(row.name)
        table.add_row(name, f"{row.forgotten:,}", f"{row.train:,}", f"{100 * row.share:.1f}")
    blocks.append(table)
    if len(ids.classes) > MAX_CLASSES:
        blocks.append(_line(f"and {len(ids.classes) - MAX_CLASSES} more classes"))
    return blocks


def _duplicates_section(
    counts: DuplicateCounts, found: Sequence[Duplicate]
) -> list[RenderableType]:
    blocks = [_line(f"{counts.exact:,} with the same bytes")]
    blocks += [
        _line(f"{each.split} {each.index} is the same as train {each.forgotten}")
        for each in found[:5]
    ]
    if counts.in_retain:
        remedy = "To forget them as well: --include-duplicates."
        blocks.append(_line(f"In retain: {counts.in_retain:,}. {remedy}"))
    return blocks


def _cost_section(cost: Cost) -> list[RenderableType]:
    seconds = cost.epoch_seconds
    duration = f"about {format_duration(seconds)}" if seconds >= 0.1 else "less than 0.1 s"
    return [_line(cost.sentence), _line(f"An epoch takes {duration}. {cost.note}")]
