"""``expunge list``: the registered parts, and what each is for."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from expunge._options import Option
from expunge._registry import Registry
from expunge.bench.protocols import PROTOCOLS
from expunge.cli._completion import complete_names
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

USE, REFERENCE = "Use it", "Reference:"
"""How the paragraphs of a docstring begin that say what a part is for, and where it comes from."""


def list_command(
    kind: Annotated[
        str | None,
        typer.Argument(
            help=f"One of {', '.join(KINDS)} (default: all).", autocompletion=complete_names(KINDS)
        ),
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """List methods, losses, add-ons, aggregations, models, data, metrics, attacks and more.

    With a kind, also says what each of its parts is for, where it comes from, and its options.
    Those of installed plug-ins are listed with the package that they come from.

    Example:  expunge list addons
    """
    output = Output(as_json=as_json, quiet=quiet)
    names = list(KINDS) if kind is None else [KINDS.name(kind)]
    parts = {name: [describe_part(KINDS[name], part) for part in KINDS[name]] for name in names}
    output.data(parts)
    for name in names:
        table = Table(title=name, title_justify="left", box=None, header_style="bold")
        for column in ("name", "also", "what it is"):
            table.add_column(column, overflow="fold", no_wrap=column == "name")
        for number, part in enumerate(parts[name]):
            text = escape(part["summary"])
            if part["origin"]:
                text = f"{text} [dim](from {escape(part['origin'])})[/]".strip()
            if kind is not None:
                text += "".join(
                    f"\n[dim]{escape(line)}[/]" for line in _more(part, parts[name][:number])
                )
            table.add_row(part["name"], part["also"], text)
        output.show(table)
        output.show("")


def describe_part(registry: Registry[Any], name: str) -> dict[str, Any]:
    """What is known about a part, in plain values."""
    label = registry.label(name)
    return {
        "name": name,
        "also": "" if label == name else label,
        "summary": registry.summary(name),
        "origin": registry.origin(name),
        "use": registry.note(name, USE),
        "reference": registry.note(name, REFERENCE).removeprefix(REFERENCE).strip(),
        "options": {_spelled(option): option.help for option in _options(registry, name)},
    }


def _options(registry: Registry[Any], name: str) -> tuple[Option, ...]:
    """The options of a built-in dataset; no plug-in is imported to be listed."""
    return () if registry is not DATASETS or registry.origin(name) else DATASETS[name].options


def _spelled(option: Option) -> str:
    """An option as it is written behind a comma."""
    value = "|".join(option.choices) or ("N" if option.type is int else "COLUMN")
    return f"{option.name}={value}"


def _more(part: dict[str, Any], before: list[dict[str, Any]]) -> list[str]:
    """What a list of one kind says besides the summary; options only once."""
    lines = [part["use"]] if part["use"] else []
    lines += [f"{REFERENCE} {part['reference']}"] if part["reference"] else []
    options = part["options"]
    for other in before:
        if options and other["options"] == options:
            return [*lines, f"options: as {other['name']}"]
    return lines + [f"{name}  {text}" for name, text in options.items()]
