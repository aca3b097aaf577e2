"""What a command prints: its result on standard output, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType

AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, and nothing else to stdout.")
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="No progress and no messages: results and errors.")
]
NARROW, WIDE = 100, 120
"""Columns of tables that go into a file or a pipe."""


class Output:
    """Where a command prints.

    ``result`` goes to standard output, as a table or as JSON; ``messages`` are for people who
    watch, on standard error, and are left out where they asked for quiet.
    """

    def __init__(
        self, *, as_json: bool = False, quiet: bool = False, width: int | None = None
    ) -> None:
        self.as_json, self.quiet = as_json, quiet
        self._console = Console(quiet=as_json)
        if width is not None and not self._console.is_terminal:
            self._console = Console(quiet=as_json, width=width)
        self.messages = Console(stderr=True, quiet=quiet)

    @property
    def progress(self) -> bool:
        """Whether to show how far a run is."""
        return not self.quiet

    def show(self, *parts: RenderableType, **style: Any) -> None:
        """Print a part of the result; nothing, if it is to be JSON."""
        for part in parts:
            self._console.print(part, **{"highlight": False} | style)

    def data(self, values: Any | Callable[[], Any]) -> None:
        """Print the result as JSON, if it is to be; a function is called for it only then."""
        if self.as_json:
            typer.echo(to_json(values() if callable(values) else values))

    def message(self, text: RenderableType, **style: Any) -> None:
        """Print to standard error, unless it is to be quiet."""
        self.messages.print(text, **{"highlight": False} | style)


def to_json(values: Any) -> str:
    """JSON that every reader takes: paths as text, numbers that are none as null.

    >>> to_json({"ta": float("nan"), "k": (1, 2)})
    '{"ta": null, "k": [1, 2]}'
    """
    return json.dumps(_plain(values), ensure_ascii=False)


def _plain(values: Any) -> Any:
    if isinstance(values, Mapping):
        return {str(name): _plain(value) for name, value in values.items()}
    if isinstance(values, list | tuple | set | frozenset):
        return [_plain(value) for value in values]
    if isinstance(values, float) and (values != values or values in (float("inf"), -float("inf"))):
        return None
    return values if isinstance(values, bool | int | float | str | None) else str(values)
