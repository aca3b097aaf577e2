"""``expunge forget``: deletion requests."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from expunge._durations import format_duration
from expunge._errors import InvalidInput
from expunge._files import check_weights_file, refuse_existing, require_file, write_text
from expunge.cli._options import expand_options
from expunge.cli._output import AsJson, ExitCode, Output, Quiet, Verbose, number_table
from expunge.request import job_options, make_job

if TYPE_CHECKING:
    from expunge.evidence import Interval, Status
    from expunge.ledger import SigningKey
    from expunge.request import Outcome

EXIT_CODES: dict[Status, ExitCode] = {
    "achieved": ExitCode.DONE,
    "not achieved": ExitCode.NO,
    "inconclusive": ExitCode.INCONCLUSIVE,
}
"""Exit code of a request by its verdict."""
COLOURS: dict[Status, str] = {
    "achieved": "green",
    "not achieved": "red",
    "inconclusive": "yellow",
}
Sign = Annotated[
    Path | None,
    typer.Option(
        metavar="KEY",
        help="PEM file of a private key (P-256) that signs what is written.",
    ),
]

DEFAULTS = {
    "method": "refresh; MATCH-LM for a language model",
    "addon": "none",
} | dict.fromkeys(("batch_size", "lr", "batchnorm", "schedule"), "what suits the method")
"""The defaults of a request, where they differ from those of ``expunge unlearn``."""


@expand_options("settings", options=job_options(), defaults=DEFAULTS)
def forget_command(
    *,
    job: Annotated[
        Path | None,
        typer.Option("--job", "-j", help="A job file (TOML) with all of these options."),
    ] = None,
    settings: dict[str, Any],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Stop after the preflight; change nothing.")
    ] = False,
    force: Annotated[
        bool,
        typer.Option(
            "--force",
            help="Continue even if the model seems not to fit the data. With --init: overwrite.",
        ),
    ] = False,
    discard: Annotated[
        bool,
        typer.Option("--discard", help="Drop another request that was left unfinished in --out."),
    ] = False,
    judge_discarded: Annotated[
        bool,
        typer.Option(
            "--judge-discarded",
            help="If only margins have changed since the last request: judge the model that it "
            "discarded again, without running the steps. It counts as another attempt.",
        ),
    ] = False,
    sign: Sign = None,
    init: Annotated[
        Path | None, typer.Option("--init", help="Write a commented job file to fill in, and stop.")
    ] = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Carry out a deletion request: from a list of ids to an unlearned model and its evidence.

    First checks everything: whether the model fits the data, whether duplicates of the records
    remain, and whether training again would be cheaper. Then mixes the weights with fresh ones,
    trains on what is retained for a part of the epochs, and judges the model on test data, as it is
    and after 50 benign steps, of training on retained data: achieved means that the 95 % bounds of
    attacks and accuracy drops lie within the margins. Writes weights, evidence and a report.

    Exits with 0 if that was achieved and 1 if not; in that case the weights are those from before.
    Exits with 3 if there are too few examples to tell, and with 2 after an error. If it is killed,
    the same command resumes. The next request with the same --out starts from the latest weights.

    Example:  expunge forget --weights model.safetensors --data digits --ids request.csv -o requests
    """
    started = time.perf_counter()

    from expunge.request import job_template, load_job

    if init is not None:
        refuse_existing(init, force=force)
        write_text(init, job_template())
        Output(quiet=quiet).wrote(f"{init}. Fill it in, then run: expunge forget --job {init}")
        return
    given = {name: value for name, value in settings.items() if value is not None}
    if job is not None:
        given = load_job(job).model_dump(exclude_unset=True) | given
    elif missing := [name for name in ("out", "weights", "ids") if name not in given]:
        raise InvalidInput(
            f"Missing --{missing[0]}. Give --out, --weights and --ids (and --model and --data for "
            "weights that expunge did not write), or a --job file: `expunge forget --init "
            "job.toml` writes one."
        )
    check_weights_file(Path(given["weights"]))
    for name in ("ids", "records"):
        if name in given:
            require_file(given[name])
    key = None if sign is None else load_signing_key(sign)
    options = {
        "dry_run": dry_run,
        "force": force,
        "discard": discard,
        "judge_discarded": judge_discarded,
        "key": key,
    }
    output = Output(as_json=as_json, quiet=quiet, verbose=verbose)
    _carry_out(make_job(**given), started, options, output)


def load_signing_key(path: Path) -> SigningKey:
    """Read the key before anything is done; asks for its password where there is a terminal."""
    from expunge.ledger import PASSWORD_VARIABLE, SigningKey, is_encrypted

    password = os.environ.get(PASSWORD_VARIABLE)
    if password is None and sys.stdin.isatty() and is_encrypted(path):
        password = typer.prompt(f"Password of {path}", hide_input=True, err=True)
    return SigningKey.load(path, password)


def _carry_out(job: Any, started: float, options: Mapping[str, Any], output: Output) -> None:
    from expunge.evidence import ACCURACY_COLUMNS
    from expunge.ledger import Ledger
    from expunge.request import RequestStopwatch, carry_out, verify_command

    def show_preflight(preflight: Any) -> None:
        if options["dry_run"] or not output.quiet:
            output.show(preflight.terminal(), highlight=True)

    outcome = carry_out(
        job,
        **options,
        on_message=lambda message: output.message(escape(message)),
        on_preflight=show_preflight,
        progress=output.progress,
        # Processor time counts from the start of the process: libraries are loaded for the request.
        stopwatch=RequestStopwatch((started, 0.0)),
    )
    output.data(lambda: _outcome_data(outcome))
    if outcome.evidence is None:
        output.message("Nothing was changed (--dry-run).")
        return
    verdict = outcome.evidence.verdict
    colour = COLOURS[verdict.status]
    output.show(
        f"\n[bold {colour}]{verdict.status.upper()}[/] {escape(verdict.headline)}", highlight=True
    )
    for reason in verdict.reasons:
        output.show(f"  {escape(reason)}")
    if verdict.next_steps:
        output.show("[bold]What to try next[/]")
    for step in verdict.next_steps:
        output.show(f"  {escape(step)}")
    output.show(number_table(ACCURACY_COLUMNS, outcome.evidence.accuracies), highlight=True)
    output.wrote(f"{outcome.folder}/: weights.safetensors, evidence.json, report.html and more.")
    output.message(
        f"Ledger: {outcome.evidence.request.ledger.id}\nHead of the ledger: {outcome.head}\nNote "
        "both elsewhere. This verifies the requests, and fails if one was changed or removed:\n"
        f"  {verify_command(Ledger.read(job.out))} --head {outcome.head}",
        markup=False,
        soft_wrap=True,
    )
    seconds = outcome.seconds
    if seconds is not None:
        total = format_duration(seconds.wall.total)
        output.message(f"It {seconds.in_words()}; {total} of wall time.")
    if code := EXIT_CODES[verdict.status]:
        raise typer.Exit(code)


def _outcome_data(outcome: Outcome) -> dict[str, Any]:
    """What a request found and did, for programs; all numbers are in the evidence."""
    preflight = outcome.preflight
    found = {"preflight": None if preflight is None else preflight.as_dict()}
    evidence = outcome.evidence
    if evidence is None:
        return found | {"status": None, "folder": None}
    sections = evidence.model_dump(mode="json", include={"verdict", "metrics", "checks"})
    notes = {"status": evidence.status, "folder": str(outcome.folder), "head": outcome.head}
    return found | sections | notes


def show_interval(interval: Interval | None) -> str:
    """A percentage and its interval, safe to print."""
    if interval is None:
        return ""
    return escape(f"{interval.value:.1f} [{interval.low:.1f}, {interval.high:.1f}] %")
