"""``expunge verify``, ``ledger`` and ``purge``: evidence of requests, checked, listed, cleaned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Table

from expunge._errors import InvalidInput
from expunge.cli._forget import COLOURS, Sign, load_signing_key, show_interval
from expunge.cli._output import AsJson, ExitCode, Output, Quiet, number_table, show_error

if TYPE_CHECKING:
    from expunge.evidence import Evidence, Status
    from expunge.ledger import IdKey, Ledger, Verification

Folder = Annotated[Path, typer.Argument(help="The folder of requests (--out of forget).")]
IdKeyFile = Annotated[
    Path | None, typer.Option(help="The key that ids were hashed with (default: the user's).")
]
SHOWN = {"number", "when", "ids", "records", "attempt", "legal_basis", "received", "due"}
"""What programs get of the summary of a request."""
LINE_COLOURS = {"holds": "green", "DOES NOT HOLD": "red"}
"""Colours of lines by how they begin; other lines could not be checked, or say nothing."""


def verify_command(
    folder: Folder,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Check only hashes and signatures; compute no numbers."),
    ] = False,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="Also forget the records again, and compare the weights bit by bit (on the same "
            "machine, with the same versions).",
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="The model, where the bundle names code; options behind it: a.b:build,width=2."
        ),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(help="The data, where the bundle names code, or if they have moved."),
    ] = None,
    weights: Annotated[
        Path | None,
        typer.Option(help="The model from before the first request, if it has moved."),
    ] = None,
    trust_job: Annotated[
        bool,
        typer.Option(
            "--trust-job",
            help="Import the code that the bundle names. See what it is first: run without it.",
        ),
    ] = False,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="PUB",
            help="PEM file of the public key that requests were signed with: checks signatures.",
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HASH",
            help="The head noted after a request: fails if it or an earlier one was changed or "
            "removed.",
        ),
    ] = None,
    expect: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What you know from elsewhere: ledger=ID, model=HASH (before the first request), "
            "data=HASH, requests=N (or more), evidence=HASH (in a letter). May be repeated.",
        ),
    ] = None,
    id_key: IdKeyFile = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Verify evidence: every hash, the chain of requests, signatures, numbers and verdicts.

    Computes the numbers again, from the weights in the bundles and the data. Runs no code that only
    a bundle names. Says what was purged, and what still remembers forgotten records.
    Exits with 0 if everything holds, with 1 if something does not, and with 4 if nothing is wrong
    but numbers could not be recomputed, so it is unknown whether the verdict is true. With
    --quick it exits with 0 if all hashes and signatures hold.

    Example:  expunge verify requests
    """
    from expunge.ledger import Ledger

    latest = Ledger.read_existing(folder).head
    expected = dict(_split_expected(text) for text in expect or ())

    from expunge.request import verify

    output = Output(as_json=as_json, quiet=quiet)
    verifications = verify(
        folder,
        model=model,
        data=data,
        weights=weights,
        trust_job=trust_job,
        quick=quick,
        replay=replay,
        head=head,
        expect=expected,
        key=key,
        id_key=id_key,
        on_import=lambda words: output.message(f"Importing {escape(words)} (--trust-job)."),
    )
    shown = ("number", "status", "ok", "verified", "not_verified", "lines")
    output.data(
        {
            "requests": [{name: getattr(each, name) for name in shown} for each in verifications],
            "ok": all(each.ok for each in verifications),
            "verified": all(each.verified for each in verifications),
            "head": latest,
        }
    )
    for verification in verifications:
        output.show(
            f"[bold]Request {verification.number}[/]: {_verdict(verification.status)}; "
            f"{_result(verification)}"
        )
        for line in verification.lines:
            kind = line.split(":")[0]
            if kind == "holds" and output.quiet:
                continue
            colour = LINE_COLOURS.get(kind, "yellow")
            output.show(f"  [{colour}]{escape(line)}[/]")
    output.show(f"Head of the ledger: {latest}", soft_wrap=True)
    if problems := [problem for checked in verifications for problem in checked.problems]:
        show_error("Failed", f"{len(problems)} checks failed. The first problem: {problems[0]}")
        raise typer.Exit(ExitCode.NO)
    counts = Counter(verification.status for verification in verifications)
    verdicts = ", ".join(f"{count} {status}" for status, count in counts.items())
    if quick:
        output.show(
            "[bold yellow]Hashes and signatures hold.[/] Nothing else was checked (--quick): not "
            f"the numbers, and not the verdicts: {verdicts}."
        )
        return
    reasons = {each.not_verified: None for each in verifications if each.not_verified}
    if reasons:
        output.show(
            "[bold yellow]Not verified:[/] [yellow]numbers were not recomputed "
            f"({escape('; '.join(reasons))}). Whether the verdicts are true is not known: "
            f"{verdicts}.[/]"
        )
        raise typer.Exit(ExitCode.NOT_VERIFIED)
    output.show(f"[bold green]Everything holds.[/] Verdicts: {verdicts}.")


def _split_expected(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not value:
        raise InvalidInput(f"--expect should read NAME=VALUE, like requests=3. (got {text!r})")
    return name, value


def _result(verification: Verification) -> str:
    if not verification.ok:
        return "[red]NOT everything holds[/]"
    if verification.not_verified:
        return "[yellow]not verified: numbers were not recomputed[/]"
    return "everything holds"


def _look_up(ledger: Ledger, requested_id: str, key: IdKey, output: Output) -> None:
    found = [each.evidence for each in ledger.find(requested_id, key)]
    rows = [
        {"number": each.request.number, "when": each.request.when, "status": each.status}
        for each in found
    ]
    output.data({"hash": key.hash_id(requested_id), "requests": rows})
    if not found:
        output.show(f"No request in {ledger.root} names this id.")
        raise typer.Exit(ExitCode.NO)
    output.show(f"Its keyed hash: {key.hash_id(requested_id)}", soft_wrap=True)
    for each in found:
        accuracy = each.metric("ua")
        delivered = accuracy.before if each.discarded else accuracy.after
        output.show(
            f"[bold]Request {each.request.number}[/] of {each.request.when}: "
            f"{_verdict(each.status)}; accuracy on its {each.request.records} records "
            f"{show_interval(delivered)}"
        )


def _verdict(status: Status | None) -> str:
    if status is None:
        return "verdict not readable"
    return f"[{COLOURS[status]}]{status.upper()}[/]"


def ledger_command(
    folder: Folder,
    find: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Look an id up: which requests forgot its records?"),
    ] = None,
    letters: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Write a letter to each person in --ids, with the number of their records.",
        ),
    ] = None,
    ids: Annotated[
        Path | None, typer.Option(help="The people to write to, as in --ids of forget.")
    ] = None,
    id_key: IdKeyFile = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Show the requests made of a model, in order, with their results and what is still open.

    Open are answers that are due (--received of forget) and models made from this one that no
    request lists as closed (`derived` in a job file). Ids are written as keyed hashes. With
    --find, whoever holds the key can look one up; it exits with 1 if no request names that id.

    Example:  expunge ledger requests --find anna
    """
    from expunge.ledger import Ledger, head_problem, require_id_key

    ledger = Ledger.read_existing(folder)
    output = Output(as_json=as_json, quiet=quiet, width=110)
    if find is not None:
        _look_up(ledger, find, require_id_key(id_key), output)
        return
    if (letters is None) != (ids is None):
        raise InvalidInput("--letters needs the list of people: give --letters and --ids together.")
    if letters is not None and ids is not None:
        from expunge.request import write_letters

        written = write_letters(ledger, ids, require_id_key(id_key), letters)
        output.data({"letters": written})
        output.wrote(f"{len(written)} files to {letters}/.")
        return
    problems = [problem for _, problem in ledger.broken_seals()]
    problems += filter(None, [head_problem(ledger)])
    rows = [_row(entry.evidence) for entry in ledger.entries]
    open_models = ledger.open_models()
    still_open = [{"request": number} | each.model_dump() for number, each in open_models]
    output.data({"requests": rows, "open": still_open, "head": ledger.head, "problems": problems})
    output.show(_table(ledger), highlight=True)
    for row in ledger.entries[-1].evidence.earlier:
        output.show(f"  request {row.number}: {row.status}, accuracy {show_interval(row.ua)}")
    for entry in ledger.entries:
        if due := entry.evidence.request.due:
            left = (due - datetime.now(UTC).date()).days
            when = f"{left} days left" if left >= 0 else f"{-left} days ago"
            output.show(f"  request {entry.number}: the answer is due on {due} ({when})")
    for number, each in open_models:
        output.show(
            f"  [yellow]open[/]: {escape(each.name)} ({each.kind}), listed by request {number}"
        )
    for problem in problems:
        output.show(f"[red]{escape(problem)}[/]")


def _table(ledger: Ledger) -> Table:
    heads = ("", "when", "ids", "records", "verdict", "forgotten data", "test", "epoch kept")
    rows: list[Sequence[str]] = []
    for entry in ledger.entries:
        evidence, request = entry.evidence, entry.evidence.request
        attempt = f", attempt {request.attempt}" if request.attempt > 1 else ""
        changes = [
            f"{metric.before.value:.1f} → {metric.after.value:.1f} %"
            for metric in (evidence.metric("ua"), evidence.metric("ta"))
        ]
        verdict = f"[{COLOURS[evidence.status]}]{evidence.status}[/]{attempt}"
        counts = str(request.ids), str(request.records)
        kept = str(evidence.stopped.epoch)
        rows.append((str(entry.number), request.when, *counts, verdict, *changes, kept))
    return number_table(heads, rows, (heads.index("when"), heads.index("verdict")))


def _row(evidence: Evidence) -> dict[str, Any]:
    """A request for programs."""
    return {
        **evidence.request.model_dump(include=SHOWN),
        "status": evidence.status,
        "epoch": evidence.stopped.epoch,
        "metrics": [metric.model_dump(mode="json") for metric in evidence.metrics],
    }


def purge_command(
    what: Annotated[Literal["requests"], typer.Argument(help="What to purge: requests.")],
    folder: Folder = Path("requests"),
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be removed; remove nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove it without asking.")] = False,
    sign: Sign = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Remove what still remembers forgotten records: old and discarded weights, checkpoints.

    Lists it first, and asks. The latest weights, the evidence and its hashes stay; purged.json
    keeps the hash of every file that was removed, so that `expunge verify` still holds. If the
    requests are signed, that list is signed too (--sign). Also lists what it does not reach, such
    as the weights from before the first request, and what audits keep.

    Example:  expunge purge requests FOLDER --dry-run
    """
    from expunge.ledger import (
        PURGED,
        Ledger,
        find_remnants,
        purge,
        remnants_elsewhere,
        require_signer,
    )

    ledger = Ledger.read_existing(folder)
    output = Output(as_json=as_json, quiet=quiet)
    remnants, not_reached = find_remnants(ledger), remnants_elsewhere(ledger)
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
    key = None if sign is None else load_signing_key(sign)
    require_signer(ledger, key)
    if not yes and not typer.confirm(f"Remove {total:.1f} MB for good?", err=True):
        output.message("Nothing was removed.")
        raise typer.Exit(1)
    removed = purge(ledger, remnants, key)
    output.message(f"Files removed: {len(removed)}. Their hashes are in {folder / PURGED}.")
