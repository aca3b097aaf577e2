"""The app, and what happens when something goes wrong."""

from __future__ import annotations

import sys
from typing import Annotated

import typer
from rich.console import Console

from expunge import __version__
from expunge._errors import ExpungeError, InvalidInput
from expunge.cli._audit import audit_command
from expunge.cli._bench import plan_command, run_command, status_command
from expunge.cli._bench_read import (
    claims_command,
    figure_command,
    records_command,
    show_command,
    table_command,
)
from expunge.cli._demo import demo_command
from expunge.cli._forget import forget_command, ledger_command, verify_command
from expunge.cli._list import list_command
from expunge.cli._train import retrain_command, train_command
from expunge.cli._unlearn import unlearn_command
from expunge.distributed._launch import launched_rank, launched_size

app = typer.Typer(
    name="expunge",
    help="Take the influence of chosen training data out of a trained model, and show how well it "
    "worked.",
    epilog="Start with:  expunge demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


bench_app = typer.Typer(
    name="bench",
    help="Run a whole protocol of experiments, resumable, and read what came of it.\n\n"
    "A protocol is a small TOML file; demo, cpu and paper come with the package. Every trained "
    "model and every run is a stage in a store, computed once, whatever asks for it.",
    epilog="Start with:  expunge bench run demo",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

INTERRUPTED = 130


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"expunge {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    if launched_size() > 1 and context.invoked_subcommand != "unlearn":
        raise InvalidInput(
            "Under torchrun, only `unlearn` divides its work among processes; start this command "
            f"without it. (got {context.invoked_subcommand})"
        )


app.command("demo")(demo_command)
app.command("train")(train_command)
app.command("retrain")(retrain_command)
app.command("unlearn")(unlearn_command)
app.command("audit")(audit_command)
app.command("forget")(forget_command)
app.command("verify")(verify_command)
app.command("ledger")(ledger_command)
app.command("list")(list_command)
bench_app.command("plan")(plan_command)
bench_app.command("run")(run_command)
bench_app.command("status")(status_command)
bench_app.command("table")(table_command)
bench_app.command("figure")(figure_command)
bench_app.command("claims")(claims_command)
bench_app.command("records")(records_command)
bench_app.command("show")(show_command)
app.add_typer(bench_app)


def main() -> None:
    """Entry point: 0 done, 1 failed, 2 wrong usage; a user's mistake shows no traceback."""
    error_console = Console(stderr=True)
    try:
        app()
    except InvalidInput as error:
        error_console.print(f"[bold red]Wrong usage{_who()}:[/] {_safe(error)}", highlight=False)
        sys.exit(2)
    except ExpungeError as error:
        error_console.print(f"[bold red]Failed{_who()}:[/] {_safe(error)}", highlight=False)
        sys.exit(1)
    except SystemExit as ending:
        if ending.code == INTERRUPTED:  # typer has turned the KeyboardInterrupt into this
            error_console.print("Interrupted. Run the same command again to resume.")
        raise


def _who() -> str:
    """Which process speaks, where it is not the first of several."""
    return f" (process {launched_rank()})" if launched_rank() else ""


def _safe(error: Exception) -> str:
    """The message with rich's markup switched off."""
    return str(error).replace("[", r"\[")
