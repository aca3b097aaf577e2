"""What a command prints, results on standard output and the rest on standard error; exit codes."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from enum import IntEnum
from typing import Annotated, Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from expunge._strict_json import to_json_types


def _switch(*flags: str, text: str) -> Any:
    """A switch in the panel of all that decides what is printed."""
    return typer.Option(*flags, help=text, rich_help_panel="Output")


AsJson = Annotated[
    bool, _switch("--json", text="Print the result as JSON, and nothing else to stdout.")
]
Quiet = Annotated[
    bool, _switch("--quiet", "-q", text="Only results, errors, and which files were written.")
]
Verbose = Annotated[
    bool, _switch("--verbose", "-v", text="A line per epoch in place of a progress bar.")
]
WIDE = 120
"""Columns of tables that go into a file or a pipe."""
_UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal obeys instead of showing it, and halves of characters, which it cannot show."""


class ExitCode(IntEnum):
    """How a command ended; the reference page of the commands says what each means."""

    DONE = 0
    NO = 1
    ERROR = 2
    INCONCLUSIVE = 3
    NOT_VERIFIED = 4
    INTERRUPTED = 130


def printable(text: str) -> str:
    """A text without control characters: the names in data can hold commands for a terminal.

    >>> printable("cat\\x1b[2J\\tdog\\u202e")
    'cat[2J\\tdog'
    """
    return _UNPRINTABLE.sub("", text)


class SafeConsole(Console):
    """A console that prints what is :func:`printable`, and its own colours, and nothing else."""

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """The segments of anything that is printed, in tables too."""
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control else printable(text), style, control)


def show_error(kind: str, text: object) -> None:
    """Say on standard error what went wrong."""
    SafeConsole(stderr=True).print(Text.assemble((f"{kind}:", "bold red"), f" {text}"))


def number_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], words: Collection[int] = (0,), **style: Any
) -> Table:
    """A table without lines: numbers on the right; on the left, what the columns ``words`` hold."""
    table = Table(box=None, header_style="bold", **{"padding": (0, 2, 0, 0)} | style)
    for number, head in enumerate(heads):
        left = number in words
        table.add_column(head, justify="left" if left else "right", no_wrap=not left)
    for row in rows:
        table.add_row(*row)
    return table


class Output:
    """Where a command prints.

    ``result`` goes to standard output, as a table or as JSON; ``messages`` are for people who
    watch, on standard error, and are left out where they asked for quiet. ``progress`` is whether
    they see bars; those who asked for a verbose command see what is logged instead.
    """

    def __init__(
        self,
        *,
        as_json: bool = False,
        quiet: bool = False,
        verbose: bool = False,
        width: int | None = None,
    ) -> None:
        self.as_json, self.quiet, self.progress = as_json, quiet, not (quiet or verbose)
        self._console = SafeConsole(quiet=as_json)
        if width is not None and not self._console.is_terminal:
            self._console = SafeConsole(quiet=as_json, width=width)
        self.messages = SafeConsole(stderr=True, quiet=quiet)
        if verbose and not quiet:
            logger = logging.getLogger("expunge")
            logger.setLevel(logging.INFO)
            logger.addHandler(logging.StreamHandler())

    def show(self, *parts: RenderableType, **style: Any) -> None:
        """Print a part of the result; nothing, if it is to be JSON."""
        for part in parts:
            self._console.print(part, **{"highlight": False} | style)

    def text(self, text: str) -> None:
        """Print a file as it is; nothing, if the result is to be JSON."""
        if not self.as_json:
            typer.echo(printable(text), nl=not text.endswith("\n"))

    def data(self, values: Any | Callable[[], Any]) -> None:
        """Print the result as JSON, if it is to be; a function is called for it only then."""
        if self.as_json:
            typer.echo(to_json(values() if callable(values) else values))

    def wrote(self, text: str) -> None:
        """Say on standard error which files were written, however quiet it is to be."""
        SafeConsole(stderr=True).print(f"Wrote {text}", highlight=False, markup=False)

    def message(self, text: RenderableType, **style: Any) -> None:
        """Print to standard error, unless it is to be quiet."""
        self.messages.print(text, **{"highlight": False} | style)


def to_json(values: Any) -> str:
    """JSON that every reader takes: paths as text, NaN and infinity as null.

    >>> to_json({"ta": float("nan"), "k": (1, 2)})
    '{"ta": null, "k": [1, 2]}'
    """
    text = json.dumps(to_json_types(values), ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
