"""What the commands of ``expunge bench`` share: options, progress, and a protocol made ready."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from expunge._errors import InvalidInput
from expunge._files import is_there
from expunge.bench.protocols import PROTOCOLS, protocol_text
from expunge.cli._options import complete_names

if TYPE_CHECKING:
    from expunge.bench._protocol import Protocol
    from expunge.bench._results import BenchRun
    from expunge.dispatch import Event, Report

ProtocolName = Annotated[
    str,
    typer.Argument(
        help=f"{', '.join(PROTOCOLS)}, or a TOML file.",
        show_default=False,
        autocompletion=complete_names(PROTOCOLS),
    ),
]
MaybeProtocol = Annotated[
    str | None,
    typer.Argument(
        help=f"{', '.join(PROTOCOLS)}, or a TOML file; not with --results.",
        autocompletion=complete_names(PROTOCOLS),
    ),
]
StorePath = Annotated[
    Path,
    typer.Option("--store", "-s", help="Folder of finished stages; several runs may share it."),
]
DataRoot = Annotated[
    Path | None, typer.Option("--data", "-d", help="Folder that holds CIFAR-10 or SVHN.")
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", help="Name of a block to run (repeatable; default: all blocks)."),
]
SeedCount = Annotated[
    int | None,
    typer.Option("--seeds", min=1, help="Only the seeds 0 to N - 1 (default: the protocol's)."),
]
ResultsPath = Annotated[
    Path | None, typer.Option("--results", "-r", help="Read a results.jsonl instead of the store.")
]
Format = Annotated[
    Literal["terminal", "markdown", "latex", "csv"],
    typer.Option("--format", "-f", help="Output format."),
]
ClaimFormat = Annotated[
    Literal["terminal", "markdown", "csv"],
    typer.Option("--format", "-f", help="Output format."),
]
STORE = Path("bench-store")


def planned_runs(
    protocol: str,
    data: Path | None,
    only: list[str] | None = None,
    seeds: int | None = None,
    keep: str = "last",
    device: str = "auto",
) -> tuple[Protocol, list[BenchRun]]:
    """A protocol and its runs."""
    protocol_text(protocol)
    root = None if data is None else str(data.expanduser().resolve())
    if root is not None and not is_there(Path(root)):
        raise InvalidInput(f"There is no folder {data}.")

    from expunge.bench._protocol_file import load_protocol
    from expunge.bench._stages import plan

    chosen = load_protocol(protocol).only(tuple(only or ()))
    chosen = chosen if seeds is None else chosen.with_seeds(seeds)
    return chosen, plan(chosen, root=root, device=device, keep=keep)


@contextmanager
def stage_progress(title: str, total: int, console: Console) -> Iterator[Report]:
    """Progress of stages: a live display on a terminal, else one line per finished stage."""
    from expunge.dispatch import Display

    if console.is_terminal:
        with Display(title, console=console) as display:
            yield display
    else:
        yield StageLog(console, total)


class StageLog:
    """A report for logs: one line per finished or failed stage."""

    def __init__(self, console: Console, total: int) -> None:
        self.console, self.total, self.ended = console, total, 0

    def __call__(self, event: Event) -> None:
        """Print an event that ends a stage or starts it again."""
        if event.what in ("done", "found", "failed", "skipped"):
            self.ended += 1
        if event.what in ("done", "failed", "retried"):
            clock = time.strftime("%H:%M:%S")
            text = f"{clock} {event.what} {self.ended}/{self.total} {event.stage.title}"
            text += f" ({event.seconds:.1f} s)" if event.what == "done" else f": {event.text}"
            self.console.print(text, highlight=False, markup=False, soft_wrap=True)
