"""``expunge forget``, ``verify`` and ``ledger``: deletion requests."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from expunge._errors import ExpungeError, InvalidInput
from expunge._files import refuse_existing, write_text

NOT_ACHIEVED = 1
SHORT = {"ua": "forgotten data", "ta": "test", "va": "validation", "ra": "retained data"}


def forget_command(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Folder of this model's requests.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="A built-in name, or package.module:factory; none for expunge's files."),
    ] = None,
    weights: Annotated[Path | None, typer.Option(help=".safetensors, or a .pt state dict.")] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="digits, cifar10:PATH, folder:PATH, npz:FILE, or package.module:factory."
        ),
    ] = None,
    ids: Annotated[
        Path | None, typer.Option(help="What must go: indices, names or ids; text, CSV or JSON.")
    ] = None,
    records: Annotated[
        Path | None, typer.Option(help="CSV that maps each training record to ids, such as people.")
    ] = None,
    id_column: Annotated[
        str | None, typer.Option(help="The column of --records that --ids name.")
    ] = None,
    job: Annotated[
        Path | None, typer.Option("--job", "-j", help="A job file (TOML) that holds all of it.")
    ] = None,
    method: Annotated[str | None, typer.Option("--method", "-m", help="SRL unless told.")] = None,
    addon: Annotated[str | None, typer.Option("--addon", "-a", help="FOCUS unless told.")] = None,
    lr: Annotated[float | None, typer.Option(help="First learning rate.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Examples a step.")] = None,
    max_epochs: Annotated[int | None, typer.Option(help="Most epochs to try.")] = None,
    floor: Annotated[
        float | None, typer.Option(help="Points of validation accuracy that may be lost.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu, cuda, …")] = None,
    include_duplicates: Annotated[
        str | None,
        typer.Option(
            metavar="none|exact|near",
            help="Forget copies in the training data along: none unless told.",
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Stop after the preflight; change nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Go on though the model does not seem to fit.")
    ] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Drop another request left unfinished in --out.")
    ] = False,
    init: Annotated[
        Path | None, typer.Option("--init", help="Write a commented job file and stop.")
    ] = None,
) -> None:
    """Carry out a deletion request: from a list of ids to an unlearned model and its evidence.

    Looks at everything first (does the model fit the data, are there copies of the records, would
    retraining be the better deal); then unlearns until the records look like unseen data, watching
    that the model stays useful; then writes weights, evidence and a page to --out. Ends with 0 if
    the records were forgotten, 1 if not; then the weights are those from before. Killed, the same
    command goes on. The next request on the same --out continues from the last weights.

    Example:  expunge forget --weights model.safetensors --data digits --ids request.csv -o requests
    """
    from expunge.request._job import job_template, load_job, make_job

    if init is not None:
        refuse_existing(init, force=force)
        write_text(init, job_template())
        Console(stderr=True).print(f"Wrote {init}. Fill it in: expunge forget --job {init}")
        return
    given: dict[str, Any] = {
        "out": out,
        "model": model,
        "weights": weights,
        "data": data,
        "ids": ids,
        "records": records,
        "id_column": id_column,
        "method": method,
        "addon": addon,
        "lr": lr,
        "batch_size": batch_size,
        "max_epochs": max_epochs,
        "floor": floor,
        "seed": seed,
        "device": device,
        "include_duplicates": include_duplicates,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if job is not None:
        base = load_job(job).model_dump(exclude_unset=True)
    else:
        base = {}
        needed = ("out", "weights", "ids")
        if missing := [name for name in needed if name not in given]:
            raise InvalidInput(
                f"Missing --{missing[0]}. Give --out, --weights and --ids (and --model and --data "
                "for files that are not expunge's), or a --job file: `expunge forget --init "
                "job.toml` writes one."
            )
    _carry_out(make_job(**(base | given)), dry_run=dry_run, force=force, discard=discard)


def _carry_out(job: Any, *, dry_run: bool, force: bool, discard: bool) -> None:
    from expunge.request._run import carry_out

    console, errors = Console(), Console(stderr=True)
    outcome = carry_out(
        job,
        dry_run=dry_run,
        force=force,
        discard=discard,
        say=lambda text: errors.print(escape(text), highlight=False),
        show=lambda found: console.print(found.terminal()),
    )
    if outcome.evidence is None:
        errors.print("Nothing was changed (--dry-run).", highlight=False)
        return
    verdict = outcome.evidence["verdict"]
    colour = "green" if outcome.achieved else "red"
    console.print(f"\n[bold {colour}]{verdict['status'].upper()}[/] {escape(verdict['headline'])}")
    for reason in verdict["reasons"]:
        console.print(f"  {escape(reason)}", highlight=False)
    console.print(_metrics(outcome.evidence))
    errors.print(
        f"Wrote {outcome.folder}/: weights.safetensors, evidence.json, report.html and more "
        f"({outcome.evidence['seconds']['total']:.0f} s).",
        highlight=False,
    )
    if not outcome.achieved:
        raise typer.Exit(NOT_ACHIEVED)


def _metrics(evidence: dict[str, Any]) -> Table:
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("accuracy, %")
    for name in ("before", "after", "target"):
        table.add_column(name, justify="right", no_wrap=True)
    for metric in evidence["metrics"]:
        cells = [_interval(metric[name], "") for name in ("before", "after", "target")]
        table.add_row(SHORT.get(metric["name"], metric["label"]), *cells)
    return table


def _interval(value: dict[str, float] | None, unit: str = " %") -> str:
    if value is None:
        return ""
    return escape(f"{value['value']:.1f} [{value['low']:.1f}, {value['high']:.1f}]{unit}")


def verify_command(
    folder: Annotated[Path, typer.Argument(help="The folder of requests (--out of forget).")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Check hashes only; compute no numbers.")
    ] = False,
    data: Annotated[
        str | None, typer.Option(help="Where the data are now, if not where they were.")
    ] = None,
) -> None:
    """Check that evidence still holds: every hash, the chain of requests, the headline numbers.

    Example:  expunge verify requests
    """
    from expunge.request._verify import verify
    from expunge.request._verify_subject import subject_of

    subject, note = (None, "") if quick else subject_of(folder, data)
    found = verify(folder, subject)
    console = Console()
    for checked in found:
        console.print(f"[bold]Request {checked.number}[/]")
        for line in checked.lines:
            colour = "red" if line.startswith("DOES NOT") else "green"
            console.print(f"  [{colour}]{escape(line)}[/]", highlight=False)
    if note:
        console.print(escape(note), style="yellow", highlight=False)
    if problems := [p for checked in found for p in checked.problems]:
        raise ExpungeError(f"{len(problems)} things do not hold, the first: {problems[0]}")
    console.print("Everything checked holds.", style="bold green")


def ledger_command(
    folder: Annotated[Path, typer.Argument(help="The folder of requests (--out of forget).")],
) -> None:
    """Show the requests made of a model, in order, and what came of each.

    Example:  expunge ledger requests
    """
    from expunge.request._ledger import Ledger

    ledger = Ledger.read(folder)
    if not ledger.entries:
        raise ExpungeError(f"There are no requests in {folder}.")
    table = Table(box=None, header_style="bold", padding=(0, 2, 0, 0))
    names = ("", "when", "ids", "records", "verdict", "forgotten data", "test", "epochs")
    for name in names:
        table.add_column(name, justify="left" if name in ("when", "verdict") else "right")
    for entry in ledger.entries:
        evidence = entry.evidence
        metrics = {m["name"]: m for m in evidence["metrics"]}
        change = [
            f"{metrics[name]['before']['value']:.1f} → {metrics[name]['after']['value']:.1f} %"
            for name in ("ua", "ta")
        ]
        request = evidence["request"]
        table.add_row(
            str(entry.number),
            request["when"],
            str(request["ids"]),
            str(request["records"]),
            evidence["verdict"]["status"],
            *change,
            str(evidence["stopped"]["epoch"]),
        )
    console = Console() if Console().is_terminal else Console(width=110)
    console.print(table)
    last = ledger.entries[-1].evidence
    for row in last["earlier"]:
        console.print(
            f"  request {row['number']}: {row['status']}, accuracy {_interval(row['ua'])}, "
            f"expected {_interval(row['target'])}",
            highlight=False,
        )
    for problem in ledger.broken_seals():
        console.print(f"[red]{escape(problem)}[/]", highlight=False)
