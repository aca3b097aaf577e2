"""The preflight as text and small tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from expunge._durations import format_duration

MAX_CLASSES = 12
"""Classes that are listed."""
MAX_NAME = 28
"""Characters of a class name that are shown."""


def printable(text: object, width: int | None = None) -> Text:
    """``text`` without markup, control characters escaped (ESC is ``\\x1b``), cut to ``width``.

    >>> printable("[red]cat\\x1b[0m").plain
    '[red]cat\\\\x1b[0m'
    """
    escaped = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text)
    )
    if width is not None and len(escaped) > width:
        escaped = f"{escaped[: width - 1]}…"
    return Text(escaped)


def render_preflight(findings: Mapping[str, Any]) -> RenderableType:
    """The findings of :meth:`Preflight.as_dict`, section by section, then warnings and notes."""
    blocks: list[RenderableType] = [
        _heading("Does the model fit the data?", "yes" if findings["fit"]["fits"] else "NO"),
        _accuracy_table(findings),
        _heading("What is to be forgotten"),
        *_ids_section(findings["ids"]),
        _heading("Duplicates that remain"),
        *_duplicates_section(findings["duplicates"]),
        _heading("What it costs", findings["cost"]["advice"]),
        *_cost_section(findings["cost"]),
    ]
    blocks += [
        Text.assemble(("Warning: ", "bold yellow"), printable(text))
        for text in findings["warnings"]
    ]
    blocks += [Text.assemble(("Note: ", "bold"), printable(text)) for text in findings["notes"]]
    return Group(*blocks)


def _heading(title: str, answer: str = "") -> Text:
    return Text.assemble((title, "bold"), (f"  {answer}" if answer else ""))


def _line(text: str) -> RenderableType:
    return Padding(printable(text), (0, 0, 0, 2))


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=True)
    table.add_column(columns[0], no_wrap=True)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _accuracy_table(findings: Mapping[str, Any]) -> Table:
    rows = {name: {"accuracy": value} for name, value in findings["fit"]["accuracy"].items()}
    hardness = findings["hardness"]
    rows["val"] = hardness["val"]
    rows["to forget"] = hardness["forget"]
    measured = [key for key in ("confidence", "entropy") if key in rows["val"]]
    table = _table("", "accuracy %", "interval", *measured)
    for name, row in rows.items():
        value = row["accuracy"]
        extra = [f"{row[key]:g}" if key in row else "" for key in measured]
        interval = f"{value['low']:.1f} to {value['high']:.1f}"
        table.add_row(name, f"{value['value']:.1f}", interval, *extra)
    return table


def _ids_section(ids: Mapping[str, Any]) -> list[RenderableType]:
    blocks: list[RenderableType] = [
        _line(
            f"{ids['records']:,} of {ids['train']:,} training records ({ids['share']:.1%}), "
            f"requested by {ids['asked']:,} id{'s' if ids['asked'] != 1 else ''}"
        )
    ]
    table = _table("class", "to forget", "of", "share")
    for row in ids["classes"][:MAX_CLASSES]:
        table.add_row(
            printable(row["name"], MAX_NAME),
            f"{row['forgotten']:,}",
            f"{row['train']:,}",
            f"{row['share']:.1%}",
        )
    blocks.append(table)
    if len(ids["classes"]) > MAX_CLASSES:
        blocks.append(_line(f"and {len(ids['classes']) - MAX_CLASSES} more classes"))
    return blocks


def _duplicates_section(duplicates: Mapping[str, Any]) -> list[RenderableType]:
    near, by_chance = duplicates["near_count"], duplicates["near_expected_by_chance"]
    blocks = [
        _line(
            f"{len(duplicates['exact']):,} exact; {near:,} near, where chance would give "
            f"{by_chance:.1f}"
        )
    ]
    examples = [*duplicates["exact"][:5], *duplicates["near"][:3]]
    for forgotten, split, index, similarity in examples:
        if similarity == 1:
            blocks.append(_line(f"{split} {index} is the same as train {forgotten}"))
        else:
            blocks.append(
                _line(f"{split} {index} resembles train {forgotten} (similarity {similarity:.4f})")
            )
    in_retain = duplicates["in_retain"]
    if any(in_retain.values()):
        blocks.append(
            _line(
                f"In retain: {in_retain['exact']:,} exact, {in_retain['near']:,} near. To forget "
                "them as well: --include-duplicates exact, or near (which includes exact)."
            )
        )
    return blocks


def _cost_section(cost: Mapping[str, Any]) -> list[RenderableType]:
    seconds = cost["epoch_seconds"]
    duration = f"about {format_duration(seconds)}" if seconds >= 0.1 else "less than 0.1 s"
    return [_line(cost["sentence"]), _line(f"An epoch takes {duration}. {cost['note']}")]
