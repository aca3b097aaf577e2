"""``expunge purge``: remove what still remembers forgotten records."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from expunge._errors import InvalidInput
from expunge.cli._forget import Sign, load_key
from expunge.cli._output import AsJson, Output, Quiet


class What(StrEnum):
    """What can be purged."""

    REQUESTS = "requests"


def purge_command(
    what: Annotated[What, typer.Argument(help="What to purge: requests.")],
    folder: Annotated[
        Path, typer.Argument(help="The folder of requests (--out of forget).")
    ] = Path("requests"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be removed; remove nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove it without asking.")] = False,
    sign: Sign = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Remove what still remembers forgotten records: old weights, attempts, checkpoints.

    Lists it first, and asks. The latest weights, the evidence and its hashes stay; purged.json
    keeps the hash of every file that was removed, so that `expunge verify` still holds. If the
    requests are signed, that list is signed too (--sign). Also lists what it does not reach, such
    as the weights from before the first request, and what audits keep.

    Example:  expunge purge requests FOLDER --dry-run
    """
    from expunge.ledger import PURGED, Ledger, find_remnants, outside_of, purge, require_signer

    ledger = Ledger.read_existing(folder)
    output = Output(as_json=as_json, quiet=quiet)
    remnants, not_reached = find_remnants(ledger), outside_of(ledger)
    found = [{"path": each.path, "bytes": each.size, "why": each.why} for each in remnants]
    output.data({"remnants": found, "not_reached": not_reached})
    for remnant in remnants:
        output.show(
            f"{escape(str(remnant.path))}  {remnant.size / 1e6:.1f} MB  {remnant.why}",
            soft_wrap=True,
        )
    for words in not_reached:
        output.show(f"[yellow]Not reached, remove it yourself:[/] {escape(words)}", soft_wrap=True)
    if not remnants:
        output.show(f"There is nothing to purge in {escape(str(folder))}.")
        return
    total = sum(remnant.size for remnant in remnants) / 1e6
    if dry_run:
        output.message(f"{total:.1f} MB would be removed (--dry-run).")
        return
    key = None if sign is None else load_key(sign)
    require_signer(ledger, key)
    if not yes and not typer.confirm(f"Remove {total:.1f} MB for good?", err=True):
        raise InvalidInput("Nothing was removed. Say yes to the question, or use --yes.")
    removed = purge(ledger, remnants, key)
    output.message(f"Removed {len(removed)} files; their hashes are in {folder / PURGED}.")
