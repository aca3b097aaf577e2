"""``expunge list``: what there is, one line each."""

from __future__ import annotations

import inspect
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from expunge._registry import Registry
from expunge.data import DATASETS, SCENARIOS
from expunge.evaluation import METRICS
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
):
    KINDS.add(_name, _registry)


SCENARIO_LINES = {
    "random": "random:0.1, that share of the training images",
    "class": "class:3 or class:cat, all images of a class; class:3:0.4, that share of them",
    "ids": "ids:FILE, the images that a text, CSV or JSON file lists",
}


def one_line(part: Any) -> str:
    """One line about a registered part."""
    for attribute in ("description", "definition"):
        text = getattr(part, attribute, None)
        if isinstance(text, str):
            return text
    return (inspect.getdoc(part) or "").split("\n\n")[0].replace("\n", " ").replace("``", "")


def list_command(
    kind: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(KINDS)}; all of them if left out.")
    ] = None,
) -> None:
    """Show what there is: methods, add-ons, aggregations, moments, models, data sets, scenarios.

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
            line = SCENARIO_LINES[entry] if registry is SCENARIOS else one_line(registry[entry])
            table.add_row(entry, shown, line.replace("[", r"\["))
        console.print(table)
        console.print()
