"""What the commands of ``expunge bench`` share: options, and a protocol made ready."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from expunge._errors import InvalidInput
from expunge._files import is_there
from expunge._registry import Registry
from expunge.bench.protocols import PROTOCOLS, protocol_text
from expunge.cli._options import complete_names

if TYPE_CHECKING:
    from expunge.bench._protocol import Protocol
    from expunge.bench._results import BenchRun

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


def name_option(registry: Registry[Any], what: str = "") -> Any:
    """``--name`` of something registered; help lists the names, or says ``what`` they are of."""
    text = f"{what or ', '.join(registry)} (repeatable; default: all)."
    return typer.Option("--name", "-n", help=text, autocompletion=complete_names(registry))


def planned_runs(
    protocol: str,
    data: Path | None,
    only: list[str] | None = None,
    seeds: int | None = None,
    keep: str = "last",
    device: str = "auto",
    besides: bool = False,
) -> tuple[Protocol, list[BenchRun]]:
    """A protocol and its runs; ``besides`` adds to its seeds instead of replacing them."""
    protocol_text(protocol)
    root = None if data is None else str(data.expanduser().resolve())
    if root is not None and not is_there(Path(root)):
        raise InvalidInput(f"There is no folder {data}.")

    from expunge.bench._protocol_file import load_protocol
    from expunge.bench._stages import plan

    chosen = load_protocol(protocol).only(tuple(only or ()))
    chosen = chosen if seeds is None else chosen.with_seeds(seeds, besides=besides)
    return chosen, plan(chosen, root=root, device=device, keep=keep)
