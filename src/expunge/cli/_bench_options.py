"""What the commands of ``expunge bench`` share: options, and a protocol made ready."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from expunge._errors import InvalidInput
from expunge.bench._protocol_file import BUILT_IN, protocol_text

if TYPE_CHECKING:
    from expunge.bench._protocol import Protocol
    from expunge.bench._stages import Planned, Where

ProtocolName = Annotated[
    str, typer.Argument(help=f"{', '.join(BUILT_IN)}, or a TOML file.", show_default=False)
]
StorePath = Annotated[
    Path, typer.Option("--store", "-s", help="Folder of finished stages; any number may share it.")
]
DataRoot = Annotated[
    Path | None, typer.Option("--data", "-d", help="Folder that holds CIFAR-10 or SVHN.")
]
Only = Annotated[list[str] | None, typer.Option("--only", help="A block of the protocol; repeat.")]
Keep = Annotated[
    Literal["all", "last", "none"],
    typer.Option(help="Weights to keep: of every evaluated epoch, of the last, or none."),
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")]
RecordsPath = Annotated[
    Path | None, typer.Option("--records", "-r", help="Read a records.jsonl instead of the store.")
]
Conditions = Annotated[
    list[str] | None, typer.Option("--where", "-w", help="name=value, name=a,b; repeat for more.")
]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Write here instead of printing.")]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output.")]
Format = Annotated[
    Literal["terminal", "markdown", "latex", "csv"],
    typer.Option("--format", "-f", help="How to print or write it."),
]
MaybeProtocol = Annotated[
    str | None,
    typer.Argument(help=f"{', '.join(BUILT_IN)}, or a TOML file; not with --records."),
]
STORE = Path("bench-store")


def planned_of(
    protocol: str, data: Path | None, only: list[str] | None, keep: str, device: str
) -> tuple[Protocol, list[Planned], Where]:
    """The protocol, its runs, and where they are to be had."""
    protocol_text(protocol)
    root = None if data is None else str(data.expanduser().resolve())
    if root is not None and not Path(root).exists():
        raise InvalidInput(f"There is no folder {data}.")

    from expunge.bench._protocol import load_protocol
    from expunge.bench._stages import Where, plan

    chosen = load_protocol(protocol).only(tuple(only or ()))
    place = Where(root=root, device=device, keep=keep)
    return chosen, plan(chosen, place), place
