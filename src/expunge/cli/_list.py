"""``expunge list``: the registered parts, and what each is for."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from expunge._options import Option
from expunge._registry import Registry
from expunge.bench.protocols import PROTOCOLS
from expunge.cli._options import complete_names
from expunge.cli._output import AsJson, Output, Quiet
from expunge.data import CORPORA, DATASETS, SCENARIOS
from expunge.evaluation import ATTACKS, METRICS
from expunge.methods import METHODS, RETAIN_LOSSES
from expunge.models import LANGUAGE_MODELS, MODELS
from expunge.update import ADDONS, AGGREGATES, MOMENTS

KINDS: Registry[Registry[Any]] = Registry("kind of part")
for _name, _registry in (
    ("methods", METHODS),
    ("retain-losses", RETAIN_LOSSES),
    ("addons", ADDONS),
    ("aggregates", AGGREGATES),
    ("moments", MOMENTS),
    ("models", MODELS),
    ("language-models", LANGUAGE_MODELS),
    ("datasets", DATASETS),
    ("corpora", CORPORA),
    ("scenarios", SCENARIOS),
    ("metrics", METRICS),
    ("attacks", ATTACKS),
    ("protocols", PROTOCOLS),
):
    KINDS.add(_name, _registry)

MAX_NAMES, FIRST_NAMES = 32, 7
"""The list of all kinds names the first of a kind that has too many parts for one screen."""
USE, REFERENCE = "Use it", "Reference:"
"""How the paragraphs of a docstring begin that say what a part is for, and where it comes from."""


def complete_what(incomplete: str) -> list[tuple[str, str]]:
    """Complete kinds, and names of parts."""
    kinds = [(kind, "") for kind in KINDS if kind.startswith(incomplete)]
    if kinds or not incomplete:
        return kinds
    return [found for _, kind in KINDS.items() for found in complete_names(kind)(incomplete)]


def list_command(
    what: Annotated[
        str | None,
        typer.Argument(
            help=f"One of {', '.join(KINDS)}, or the name of a part (default: all names).",
            autocompletion=complete_what,
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List methods, losses, add-ons, aggregations, models, data, metrics, attacks and more.

    With a kind, says what each of its parts is. With a name, also says what that part is for, where
    it comes from, and its options. Those of installed plug-ins are listed with the package that
    they come from.

    Example:  expunge list scrub
    """
    output = Output(as_json=as_json, quiet=quiet)
    parts = _find_parts(what)
    output.data(parts)
    if what is None:
        output.show(_names_table(parts), "[dim]expunge list KIND or NAME says more about them.[/]")
    elif what in KINDS:
        output.show(_kind_table(*parts.values()))
    else:
        for kind, found in parts.items():
            for part in found:
                output.show(*_details(kind, part))


def _find_parts(what: str | None) -> dict[str, list[dict[str, Any]]]:
    """All parts by kind, those of a kind, or those of one name."""
    if what is None:
        names = {kind: list(KINDS[kind]) for kind in KINDS}
    elif what in KINDS:
        names = {KINDS.name(what): list(KINDS[what])}
    else:
        names = {kind: [KINDS[kind].bare_name(what)] for kind in KINDS if what in KINDS[kind]}
    if not names:
        KINDS.name(what or "")  # an error with the nearest kind
    return {kind: [describe_part(KINDS[kind], name) for name in names[kind]] for kind in names}


def _names_table(parts: dict[str, list[dict[str, Any]]]) -> Table:
    """The names of every kind in 24 lines of a terminal; kinds with one name share a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    single = []
    for kind, found in parts.items():
        names = [part["name"] for part in found]
        if len(names) == 1:
            single.append(f"{names[0]} ({kind})")
            continue
        if len(names) > MAX_NAMES:
            names = [*names[:FIRST_NAMES], f"and {len(names) - FIRST_NAMES} more"]
        table.add_row(kind, escape(", ".join(names)))
    table.add_row("others", escape(", ".join(single)))
    return table


def _kind_table(parts: list[dict[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in ("name", "also", "what it is"):
        table.add_column(column, overflow="fold", no_wrap=column == "name")
    for part in parts:
        table.add_row(part["name"], part["also"], f"{escape(part['summary'])}{_origin(part)}")
    return table


def _details(kind: str, part: dict[str, Any]) -> tuple[RenderableType, ...]:
    """Everything about a part: its name, then a paragraph for each thing."""
    also = f" ({part['also']})" if part["also"] else ""
    reference = f"{REFERENCE} {part['reference']}" if part["reference"] else ""
    options = (f"{name}  {text}" for name, text in part["options"].items())
    lines = (part["summary"], part["use"], reference, *options)
    title = f"[bold]{escape(part['name'])}[/]{escape(also)}, of the {kind}{_origin(part)}"
    return title, *(Padding(escape(line), (0, 0, 0, 2)) for line in lines if line)


def _origin(part: dict[str, Any]) -> str:
    return f" [dim](from {escape(part['origin'])})[/]" if part["origin"] else ""


def describe_part(registry: Registry[Any], name: str) -> dict[str, Any]:
    """What is known about a part, in plain values; no plug-in is imported for it."""
    label, origin = registry.label(name), registry.origin(name)
    has_options = registry is DATASETS and not origin
    return {
        "name": name,
        "also": "" if label == name else label,
        "summary": registry.summary(name),
        "origin": origin,
        "use": registry.note(name, USE),
        "reference": registry.note(name, REFERENCE).removeprefix(REFERENCE).strip(),
        "options": {_spelled(o): o.help for o in DATASETS[name].options} if has_options else {},
    }


def _spelled(option: Option) -> str:
    """An option as it is written behind a comma."""
    kind = "N" if option.plain_type is int else "COLUMN"
    value = "|".join(option.choices) or str(option.example or kind)
    return f"{option.name}={value}"
