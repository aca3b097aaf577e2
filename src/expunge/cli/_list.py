"""``expunge list``: the registered parts, one line each."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from expunge._registry import Registry
from expunge.bench.protocols import PROTOCOLS
from expunge.data import DATASETS, SCENARIOS
from expunge.evaluation import ATTACKS, METRICS
from expunge.methods import METHODS
from expunge.models import MODELS
from expunge.update import ADDONS, AGGREGATES, MOMENTS

KINDS: Registry[Registry[Any]] = Registry("kind of part")
for _name, _registry in (
    ("methods", METHODS),
    ("addons", ADDONS),
    ("aggregates", AGGREGATES),
    ("moments", MOMENTS),
    ("models", MODELS),
    ("datasets", DATASETS),
    ("scenarios", SCENARIOS),
    ("metrics", METRICS),
    ("attacks", ATTACKS),
    ("protocols", PROTOCOLS),
):
    KINDS.add(_name, _registry)


def list_command(
    kind: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(KINDS)} (default: all).")
    ] = None,
) -> None:
    """List methods, add-ons, aggregations, moments, models, datasets, metrics, attacks and more.

    Those of installed plug-ins are listed with the package that they come from.

    Example:  expunge list addons
    """
    console = Console()
    for name in KINDS if kind is None else [KINDS.name(kind)]:
        registry = KINDS[name]
        table = Table(title=name, title_justify="left", box=None, header_style="bold")
        for column in ("name", "also", "what it is"):
            table.add_column(column, overflow="fold", no_wrap=column == "name")
        for entry in registry:
            label = registry.label(entry)
            shown = "" if label == entry else label
            text = escape(registry.summary(entry))
            if origin := registry.origin(entry):
                text = f"{text} [dim](from {escape(origin)})[/]".strip()
            table.add_row(entry, shown, text)
        console.print(table)
        console.print()
