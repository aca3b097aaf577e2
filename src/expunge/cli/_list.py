"""``expunge list``: the registered parts, one line each."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from expunge._registry import Registry
from expunge.data import CORPORA, DATASETS, SCENARIOS
from expunge.evaluation import METRICS
from expunge.methods import METHODS
from expunge.models import LANGUAGE_MODELS, MODELS
from expunge.update import ADDONS, AGGREGATES, MOMENTS

KINDS: Registry[Registry[Any]] = Registry("kind of part")
for _name, _registry in (
    ("methods", METHODS),
    ("addons", ADDONS),
    ("aggregates", AGGREGATES),
    ("moments", MOMENTS),
    ("models", MODELS),
    ("language-models", LANGUAGE_MODELS),
    ("datasets", DATASETS),
    ("corpora", CORPORA),
    ("scenarios", SCENARIOS),
    ("metrics", METRICS),
):
    KINDS.add(_name, _registry)


def list_command(
    kind: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(KINDS)} (default: all).")
    ] = None,
) -> None:
    """List methods, add-ons, aggregations, moments, models, data, scenarios and metrics.

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
            table.add_row(entry, shown, escape(registry.summary(entry)))
        console.print(table)
        console.print()
