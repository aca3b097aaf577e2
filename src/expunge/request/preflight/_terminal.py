"""The preflight on a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from expunge._durations import format_duration

CLASSES = 12
"""Classes that are listed."""
WIDTH = 28
"""Of a name."""


def shown(text: object, width: int | None = None) -> Text:
    """``text`` as it is, without markup; what cannot be seen is written out, so ESC is ``\\x1b``.

    >>> shown("[red]cat\\x1b[0m").plain
    '[red]cat\\\\x1b[0m'
    """
    plain = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text)
    )
    cut = plain if width is None or len(plain) <= width else f"{plain[: width - 1]}…"
    return Text(cut)


def summarise(found: Mapping[str, Any]) -> RenderableType:
    """The findings of :meth:`Preflight.as_dict`, in words and small tables."""
    parts: list[RenderableType] = [
        _head("Does the model fit the data?", "yes" if found["fit"]["fits"] else "NO"),
        _fit(found),
        _head("What is to be forgotten", ""),
        *_ids(found["ids"]),
        _head("Copies that remain", ""),
        *_copies(found["duplicates"]),
        _head("What it takes", found["cost"]["advice"]),
        *_cost(found["cost"]),
    ]
    notes = [("Note", text) for text in found["notes"]]
    for kind, text in [("Warning", text) for text in found["warnings"]] + notes:
        style = "bold yellow" if kind == "Warning" else "bold"
        parts.append(Text.assemble((f"{kind}: ", style), shown(text)))
    return Group(*parts)


def _head(title: str, answer: str) -> Text:
    return Text.assemble((title, "bold"), (f"  {answer}" if answer else ""))


def _line(text: str) -> RenderableType:
    return Padding(shown(text), (0, 0, 0, 2))


def _table(*columns: str) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=True)
    table.add_column(columns[0], no_wrap=True)
    for name in columns[1:]:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _fit(found: Mapping[str, Any]) -> Table:
    table = _table("", "accuracy %", "interval", "confidence", "entropy")
    rows = {name: {"accuracy": value} for name, value in found["fit"]["accuracy"].items()}
    hardness = found["hardness"]
    rows["val"] = hardness["val"]
    rows["to forget"] = hardness["forget"]
    for name, row in rows.items():
        value = row["accuracy"]
        extra = [f"{row[key]:.3f}" if key in row else "" for key in ("confidence", "entropy")]
        interval = f"{value['low']:.1f} to {value['high']:.1f}"
        table.add_row(name, f"{value['value']:.1f}", interval, *extra)
    return table


def _ids(ids: Mapping[str, Any]) -> list[RenderableType]:
    lines: list[RenderableType] = [
        _line(
            f"{ids['records']:,} of {ids['train']:,} training records ({ids['share']:.1%}), asked "
            f"for by {ids['asked']:,} ids"
        )
    ]
    if ids["twice"]:
        names = ", ".join(repr(name) for name in ids["twice"][:5])
        lines.append(_line(f"listed more than once: {names}"))
    table = _table("class", "to forget", "of", "share")
    for row in ids["classes"][:CLASSES]:
        table.add_row(
            shown(row["name"], WIDTH),
            f"{row['forgotten']:,}",
            f"{row['train']:,}",
            f"{row['share']:.1%}",
        )
    lines.append(table)
    if len(ids["classes"]) > CLASSES:
        lines.append(_line(f"and {len(ids['classes']) - CLASSES} more classes"))
    return lines


def _copies(copies: Mapping[str, Any]) -> list[RenderableType]:
    near, chance = copies["near_count"], copies["near_expected_by_chance"]
    lines = [
        _line(f"{len(copies['exact']):,} exact; {near:,} near, of which chance gives {chance:.1f}")
    ]
    for forgotten, split, index, similarity in [*copies["exact"][:5], *copies["near"][:3]]:
        same = "the same as" if similarity == 1 else f"{similarity:.4f} like"
        lines.append(_line(f"{split} {index} is {same} train {forgotten}"))
    own = copies["in_retain"]
    if any(own.values()):
        lines.append(
            _line(
                f"In retain: {own['exact']:,} exact, {own['near']:,} near. To forget them along: "
                "--include-duplicates exact, or near (the exact ones too)."
            )
        )
    return lines


def _cost(cost: Mapping[str, Any]) -> list[RenderableType]:
    seconds = cost["epoch_seconds"]
    each = f"about {format_duration(seconds)}" if seconds >= 0.1 else "less than 0.1 s"
    return [_line(cost["sentence"]), _line(f"An epoch takes {each}. {cost['note']}")]
